"""Links from a task in Airflow's UI to its queue, and to its lease, in the console.

Airflow asks the task itself for a link, at its end on a worker, and keeps it as an XCom. For tasks that ended
elsewhere, `rmq_airflow.plugin.links` finds it in the API server.

Law: a link contains names only: a connection, a queue and the id of a lease, never a token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import BaseOperatorLink, conf

from rmq_airflow.identity import TaskIdentity
from rmq_airflow.paths import PREFIX, base_path
from rmq_core import ConfigurationError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PAGE = "/plugin/rmq"
PLACE = "redis"
"""The id of the one server that `rmq serve` shows."""
CLAIMING = ("RedisQueueConsumeOperator", "RedisQueueDecoratedOperator", "RedisQueueSparkSubmitOperator")


class RedisQueueLink(BaseOperatorLink):
    """The link “Queue” of a task; of a task that claims, it leads to the lease under the task's name."""

    name = "Queue"
    xcom_key = "_link_RedisQueueLink"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the queue's page; empty if the task has no queue."""
        claims = operator.task_type in CLAIMING or bool(getattr(operator, "hand_over", None))
        return link(lambda name: getattr(operator, name, None), identity_of(ti_key) if claims else None)


class LinkedTask:
    """What tasks of RMQ have in common in Airflow's UI: their colors, and the link to the queue."""

    operator_extra_links: Collection[BaseOperatorLink] = (RedisQueueLink(),)
    ui_color = "#dc382c"
    ui_fgcolor = "#ffffff"


def link(field: Callable[[str], Any], task: TaskIdentity | None) -> str:
    """Return the address of the page of a task's queue and lease; empty if it is unknown which queue that is.

    field: returns an argument of the operator, rendered. task: None for one that claims nothing.
    """
    handed = field("hand_over")
    if isinstance(handed, Mapping) and handed.get("queue"):
        queue, lease_id = handed["queue"], handed.get("lease_id")
    else:
        queue, lease_id = field("redis_queue"), field("lease_id") or (task and task.lease_id)
    connection = field("redis_queue_conn_id")
    if not (isinstance(queue, str) and isinstance(connection, str) and queue and connection):
        return ""
    return address(connection, queue, lease_id)


def address(connection: str, queue: str, lease_id: str | None = None) -> str:
    """Return the address of a queue's page: in Airflow, or in the console that `[rmq] console` names.

    Raises ConfigurationError if that is not an http address.
    """
    console = (conf.get("rmq", "console", fallback="") or "").rstrip("/")
    if console and urlsplit(console).scheme not in {"http", "https"}:
        raise ConfigurationError(f"`[rmq] console` must be an http address, that of `rmq serve`, not {console!r}")
    parts = [PLACE if console else connection, queue, *(["leases", lease_id] if lease_id else [])]
    # Airflow passes a fragment on to the frame of a plugin only if its own path contains the path of the frame.
    page = f"{console}/" if console else f"{base_path()}{PAGE}{base_path()}{PREFIX}/"
    return f"{page}#/{'/'.join(quote(part, safe='') for part in parts)}"


def identity_of(key: TaskInstanceKey) -> TaskIdentity:
    """Return the identity of the task instance that Airflow asks about."""
    map_index = -1 if key.map_index is None else key.map_index
    return TaskIdentity(key.dag_id, key.run_id, key.task_id, map_index, key.try_number)
