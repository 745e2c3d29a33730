"""Redrive dead letters: make them ready again.

Law: the history of a message keeps the failures that made it dead; only its delivery count starts at zero again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, TypedDict

from airflow.providers.common.compat.sdk import BaseOperator, Context

from rmq_airflow.batch import check_bound, check_discipline, check_queue
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.lineage import QueueLineageMixin
from rmq_airflow.links import LinkedTask
from rmq_airflow.metrics import report_counts
from rmq_core import LeasedConfig
from rmq_core.orchestrate import acting_as
from rmq_core.protocol import require


class RedriveReport(TypedDict):
    """The return value of the operator; `dead` is the number of dead letters that remain."""

    queue: str
    redriven: int
    dead: int


class RedisQueueRedriveOperator(LinkedTask, QueueLineageMixin, BaseOperator):
    """
    Make dead letters ready again, the oldest first, with a fresh delivery budget.

    A retry continues where the previous try ended, because a message that was moved is no longer a dead letter. The
    history of the queue names the task as the one who did it.

    .. seealso:: :ref:`howto/operator:RedisQueueRedriveOperator`

    :param redis_queue: the queue whose dead letters are moved (templated)
    :param max_messages: the most messages to move; all when None
    :param queue_config: by default that of the connection
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    """

    template_fields: Sequence[str] = ("redis_queue", "redis_queue_conn_id")
    queue_is = "output"

    def __init__(
        self,
        *,
        redis_queue: str,
        max_messages: int | None = None,
        queue_config: LeasedConfig | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_queue(redis_queue, queue_config)
        check_bound("max_messages", max_messages)
        self.redis_queue = redis_queue
        self.max_messages = max_messages
        self.queue_config = queue_config
        self.redis_queue_conn_id = redis_queue_conn_id

    def execute(self, context: Context) -> RedriveReport:
        """Move the dead letters. Raises QueueFull if the server lacks memory for them; they then stay dead letters."""
        hook = RedisQueueHook(self.redis_queue_conn_id)
        actor = acting_as(TaskIdentity.of(context).owner)  # for the history and the journal
        with actor, closing(hook.work_queue(self.redis_queue, self.queue_config)) as queue:
            check_discipline(queue)
            require(queue, type(self).__name__, "dead_letters")
            report: RedriveReport = {
                "queue": self.redis_queue,
                "redriven": queue.admin.redrive(self.max_messages),
                "dead": queue.stats().dead,
            }
        self.log.info("Redrove: %s", report)
        report_counts(self, self.redis_queue, redriven=report["redriven"])
        return report
