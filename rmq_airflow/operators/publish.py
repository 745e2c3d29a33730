"""Publishing work items from a DAG.

Law: payloads stay out of XCom and of the rendered fields that Airflow stores; what is returned has the same size for
one message and for a million.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from airflow.providers.common.compat.sdk import BaseOperator, XComArg, determine_kwargs

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.identity import TaskIdentity
from rmq_core import ConfigurationError, LeasedConfig

if TYPE_CHECKING:
    import jinja2
    from airflow.providers.common.compat.sdk import Context

CHUNK = 10_000  # payloads held in memory at once


class PublishedReport(TypedDict):
    """What the operator returns."""

    queue: str
    accepted: int
    duplicates: int
    dropped: int


class RedisQueuePublishOperator(BaseOperator):
    """
    Publish messages to a queue.

    Each message carries the headers ``airflow-dag-id``, ``airflow-run-id``, ``airflow-task-id`` and
    ``airflow-map-index``. A retry publishes everything again: where that must not happen twice, deduplicate.

    :param redis_queue: the queue to publish to (templated)
    :param messages: a list of payloads, an XCom that holds one, or a function that returns any iterable of them, of any
        length; the function may take arguments named after entries of the task's context (templated)
    :param dedup_key: returns the deduplication key of a payload; by default, with ``queue_config.dedup``, its content
    :param delay: seconds or timedelta before the messages become ready
    :param headers: headers of your own (templated)
    :param queue_config: deduplication, capacity and so on; by default those of the connection
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    """

    template_fields: Sequence[str] = ("redis_queue", "messages", "headers", "redis_queue_conn_id")
    ui_color = "#dc382c"
    ui_fgcolor = "#ffffff"

    def __init__(
        self,
        *,
        redis_queue: str,
        messages: Iterable[Any] | Callable[..., Iterable[Any]] | XComArg,
        dedup_key: Callable[[Any], str] | None = None,
        delay: timedelta | float | None = None,
        headers: Mapping[str, str] | None = None,
        queue_config: LeasedConfig | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        if isinstance(messages, Iterator):
            raise ConfigurationError(
                "`messages` is an iterator, which a retry could not read again; pass the function that makes it"
            )
        super().__init__(**kwargs)
        self.redis_queue = redis_queue
        self.messages = messages
        self.dedup_key = dedup_key
        self.delay = delay
        self.headers = headers
        self.queue_config = queue_config
        self.redis_queue_conn_id = redis_queue_conn_id

    def execute(self, context: Context) -> PublishedReport:
        """Publish in chunks; QueueFull and PayloadError end it at the first chunk that is refused."""
        total: PublishedReport = {"queue": self.redis_queue, "accepted": 0, "duplicates": 0, "dropped": 0}
        headers = {**TaskIdentity.of(context).headers, **(self.headers or {})}
        with RedisQueueHook(self.redis_queue_conn_id).queue(self.redis_queue, self.queue_config) as queue:
            for chunk in _chunks(self._payloads(context)):
                report = queue.publish_many(chunk, dedup_key=self.dedup_key, delay=self.delay, headers=headers)
                total["accepted"] += report.accepted
                total["duplicates"] += report.duplicates
                total["dropped"] += report.dropped
        self.log.info("Published to %s: %s", self.redis_queue, total)
        return total

    def _payloads(self, context: Context) -> Iterable[Any]:
        messages: Any = self.messages
        if callable(messages):
            messages = messages(**determine_kwargs(messages, (), dict(context)))
        if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
            raise ConfigurationError(
                f"`messages` must be a list of payloads, not {type(messages).__name__}: put a single one into a list, "
                "and hand over another task's `.output` rather than a template, which gives a string"
            )
        return messages

    def _do_render_template_fields(
        self,
        parent: Any,
        template_fields: Iterable[str],
        context: Context,
        jinja_env: jinja2.Environment,
        seen_oids: set[int],
    ) -> None:
        # Airflow would call a function now, and would store rendered payloads in its database for everybody to see.
        called_later = callable(self.messages)
        fields = [name for name in template_fields if name != "messages" or not called_later]
        super()._do_render_template_fields(parent, fields, context, jinja_env, seen_oids)
        if not called_later:
            self.messages = Unshown.wrapping(self.messages)


class Unshown:
    """An iterable that Airflow's UI shows as its size only."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values

    @classmethod
    def wrapping(cls, value: Any) -> Any:
        """`value` itself where wrapping would hide a mistake, such as a string."""
        if isinstance(value, str | bytes | Mapping | cls) or not isinstance(value, Iterable):
            return value
        return cls(value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __str__(self) -> str:
        size = len(self._values) if isinstance(self._values, Sequence) else "some"
        return f"<{size} payloads>"


def _chunks(payloads: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(payloads)
    while chunk := list(itertools.islice(iterator, CHUNK)):
        yield chunk
