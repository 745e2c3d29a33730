"""Work on messages in the task itself.

Law: claim, work and ack happen within one `execute`. If `execute` raises, it settles every message first, so that a
retry need not wait for them. A try that was killed leaves its lease to the retry, which takes the lease over by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Literal

from airflow.providers.common.compat.sdk import BaseOperator, Context, determine_kwargs

from rmq_airflow.batch import (
    ReleaseOnKillMixin,
    TaskBatch,
    check_bound,
    check_discipline,
    check_groups,
    check_queue,
    check_seconds,
)
from rmq_airflow.drain import Bounds, ConsumeReport, Drain
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.lineage import QueueLineageMixin
from rmq_airflow.links import LinkedTask
from rmq_airflow.metrics import report_counts
from rmq_airflow.retries import warn_of_short_lease
from rmq_core import ConfigurationError, LeasedConfig
from rmq_core.orchestrate import is_awaited

Count = Literal["claimed", "acked", "failed", "dead", "isolated"]
COUNTED: tuple[Count, ...] = ("claimed", "acked", "failed", "dead", "isolated")


class RedisQueueConsumeOperator(LinkedTask, QueueLineageMixin, ReleaseOnKillMixin, BaseOperator):
    """
    Work on messages until the queue is empty or a bound is reached.

    Each message is acked when the function returns and nacked when it raises; the task then goes on with the next one.
    After more than ``max_failures`` failures the task fails and releases the untried messages, for which no delivery is
    counted. AirflowFailException and AirflowSkipException from the function end the task, too. A try that was killed
    leaves its batch to the retry, which takes it over.

    Returns ``{"queue", "ended", "claimed", "acked", "failed", "dead", "isolated", "settled_before"}``, where
    ``isolated`` is the number of messages that had failed together before and were tried apart. An empty queue is a
    success. A task that is cleared, marked or deleted, or whose worker shuts down, releases what it holds.

    .. seealso:: :ref:`howto/operator:RedisQueueConsumeOperator`

    :param redis_queue: the queue to claim from (templated)
    :param on_message: called with each message, and with the entries of the task's context that its parameters name
    :param on_batch: called, instead of ``on_message``, with up to ``batch_size`` messages as a ``TaskBatch``, whose
        messages it may settle one by one
    :param batch_size: number of messages claimed at once, under one lease
    :param max_messages: the most messages to claim in total; by default the task claims until the queue is empty
    :param max_time: seconds or timedelta after which the task claims no more messages
    :param max_failures: fail the task when more messages than this have failed; by default never
    :param failed_delay: seconds or timedelta before a failed message is ready again; by default the queue's backoff, or
        a minute when it has none
    :param queue_config: lease, delivery limit and so on; by default those of the connection
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    :param groups: claim only messages of these groups, in a queue that has groups (templated)
    """

    template_fields: Sequence[str] = ("redis_queue", "redis_queue_conn_id", "groups")

    def __init__(
        self,
        *,
        redis_queue: str,
        on_message: Callable[..., object] | None = None,
        on_batch: Callable[..., object] | None = None,
        batch_size: int = 100,
        max_messages: int | None = None,
        max_time: timedelta | float | None = None,
        max_failures: int | None = None,
        failed_delay: timedelta | float | None = None,
        queue_config: LeasedConfig | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        groups: Collection[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _check_functions(on_message, on_batch)
        check_queue(redis_queue, queue_config)
        check_bound("batch_size", batch_size)
        check_bound("max_messages", max_messages)
        check_bound("max_failures", max_failures, least=0)
        self.redis_queue = redis_queue
        self.on_message = on_message
        self.on_batch = on_batch
        self.bounds = Bounds(
            batch_size, max_messages, check_seconds("max_time", max_time), max_failures,
            check_seconds("failed_delay", failed_delay), sequential=on_message is not None,
        )  # fmt: skip
        self.queue_config = queue_config
        self.redis_queue_conn_id = redis_queue_conn_id
        self.groups = check_groups(groups)
        warn_of_short_lease(self, "queue_config", None, queue_config)

    def execute(self, context: Context) -> ConsumeReport:
        """Drain the queue. Raises TooManyFailures, or LeaseLost if the lease was lost meanwhile."""
        hook = RedisQueueHook(self.redis_queue_conn_id)
        with hook.queue(self.redis_queue, self.queue_config, needed_by=type(self).__name__) as queue:
            check_discipline(queue)
            drain = Drain(queue, TaskIdentity.of(context), self.bounds, self.groups)
            try:
                for batch in drain.batches():
                    with self._holding(batch, hook, queue, context["ti"]):
                        self._work(drain, batch, context)
            finally:
                report_counts(self, self.redis_queue, **{name: drain.report[name] for name in COUNTED})
        self.log.info("Consumed: %s", drain.report)
        return drain.report

    def _work(self, drain: Drain, batch: TaskBatch, context: Context) -> None:
        try:
            if self.on_message is not None:
                drain.work_on_each(batch, _with_context(self.on_message, context))
            elif self.on_batch is not None:
                drain.work_on_all(batch, _with_context(self.on_batch, context))
        except BaseException as error:
            drain.stop(batch, error)
            self.log.info("Consumed before the error: %s", drain.report)
            raise


def _with_context(function: Callable[..., object], context: Context) -> Callable[[Any], object]:
    place_of_the_message: Collection[None] = (None,)
    named: Mapping[str, Any] = determine_kwargs(function, place_of_the_message, dict(context))
    return partial(function, **named)


def _check_functions(on_message: Any, on_batch: Any) -> None:
    if (on_message is None) == (on_batch is None):
        raise ConfigurationError("give either `on_message` or `on_batch`: the function that does the work")
    function = on_batch if on_message is None else on_message
    if not callable(function):
        raise ConfigurationError(f"`on_message` and `on_batch` must be functions, not {type(function).__name__}")
    if is_awaited(function):
        raise ConfigurationError("`on_message` and `on_batch` must not be coroutine functions; call asyncio.run inside")
