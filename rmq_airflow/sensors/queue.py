"""Waiting for work.

Law: a sensor looks and holds nothing, so it can be killed, retried or cleared at any time; what it saw may be gone when
the next task claims, which is why an empty claim is a success there. Every mode returns the same report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, cast

from airflow.providers.common.compat.sdk import BaseSensorOperator, PokeReturnValue, conf

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.threshold import BacklogReport, Threshold, report
from rmq_airflow.triggers.queue import RedisQueueTrigger
from rmq_core import RedisMessageQueueError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from rmq_core import Backlog


class RedisQueueSensor(BaseSensorOperator):
    """
    Wait until a queue holds enough work.

    Returns ``{"queue", "ready", "oldest_age"}``. Messages whose delay has passed and those of expired leases count.
    Deferrable mode waits in Redis without polling and wakes at once; the others look every ``poke_interval``.

    :param redis_queue: the queue to look at (templated)
    :param min_messages: enough when so many messages are ready
    :param max_age: enough, too, when the oldest ready message is so old: seconds or timedelta
    :param deferrable: wait in the triggerer instead of in a worker's slot
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    """

    template_fields: Sequence[str] = ("redis_queue", "redis_queue_conn_id")
    ui_color = "#f5b7b1"

    def __init__(
        self,
        *,
        redis_queue: str,
        min_messages: int = 1,
        max_age: timedelta | float | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.threshold = Threshold.of(min_messages, max_age)
        self.redis_queue = redis_queue
        self.min_messages = min_messages
        self.max_age = max_age
        self.deferrable = deferrable
        self.redis_queue_conn_id = redis_queue_conn_id

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002  Airflow's signature
        """Look once."""
        backlog = self._look()
        self.log.info("Queue %s: %d ready, oldest %s s.", self.redis_queue, backlog.ready, backlog.oldest_age)
        return PokeReturnValue(self.threshold.met_by(backlog), report(self.redis_queue, backlog))

    def execute(self, context: Context) -> Any:
        """Look, and defer when it is not enough yet."""
        if not self.deferrable:
            return super().execute(context)
        looked = self.poke(context)
        if not looked.is_done:
            self._defer()
        return looked.xcom_value

    def _defer(self) -> NoReturn:
        self.defer(
            trigger=RedisQueueTrigger(
                redis_queue=self.redis_queue,
                min_messages=self.threshold.min_messages,
                max_age=self.threshold.max_age,
                redis_queue_conn_id=self.redis_queue_conn_id,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> BacklogReport:  # noqa: ARG002
        """Return the trigger's report; RedisMessageQueueError when it could not wait."""
        if event["status"] != "success":
            # Not an AirflowException: `soft_fail` is for a time-out, and would turn a broken connection into a skip.
            raise RedisMessageQueueError(event["message"])
        return cast("BacklogReport", event["report"])

    def _look(self) -> Backlog:
        with RedisQueueHook(self.redis_queue_conn_id).queue(self.redis_queue) as queue:
            return queue.backlog()
