"""Check the numbers of a queue: fail when one is above its limit, so that Airflow's notifiers report it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, TypedDict

from airflow.providers.common.compat.sdk import AirflowException, BaseOperator, Context

from rmq_airflow.batch import check_queue
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.links import LinkedTask
from rmq_core import LeasedConfig
from rmq_core.orchestrate import ALERTS, Exceeded, StatsLimits


class CheckReport(TypedDict):
    """The return value of the operator: what each limit was compared with, and the names of those exceeded."""

    queue: str
    measured: dict[str, float]
    exceeded: list[str]


class RedisQueueCheckOperator(LinkedTask, BaseOperator):
    """
    Fail when a number of a queue is above the ``error`` bound of its limit; log a warning above ``warn``.

    Claims nothing. The limits are by default those of the alerts that RMQ ships for Prometheus; its ``dead_letters``
    are all that the queue holds.

    .. seealso:: :ref:`howto/operator:RedisQueueCheckOperator`

    :param redis_queue: the queue to check (templated)
    :param limits: a ``StatsLimits``; ``rmq_core.orchestrate.ALERTS.stats`` when None
    :param queue_config: by default that of the connection
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    """

    template_fields: Sequence[str] = ("redis_queue", "redis_queue_conn_id")

    def __init__(
        self,
        *,
        redis_queue: str,
        limits: StatsLimits | None = None,
        queue_config: LeasedConfig | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_queue(redis_queue, queue_config)
        self.redis_queue = redis_queue
        self.limits = limits or ALERTS.stats
        self.queue_config = queue_config
        self.redis_queue_conn_id = redis_queue_conn_id

    def execute(self, context: Context) -> CheckReport:  # noqa: ARG002  Airflow's signature
        """Compare the numbers of the queue with the limits. Raises AirflowException above an ``error`` bound."""
        hook = RedisQueueHook(self.redis_queue_conn_id)
        with closing(hook.work_queue(self.redis_queue, self.queue_config)) as queue:
            queue.backlog()  # makes due messages ready, which stats only counts
            stats = queue.stats()
        exceeded = self.limits.exceeded(stats)
        for each in exceeded:
            self.log.warning("Queue %s: %s", self.redis_queue, _described(each))
        errors = [_described(each) for each in exceeded if each.grade == "error"]
        if errors:
            raise AirflowException(f"Queue {self.redis_queue}: {'; '.join(errors)}")
        names = [each.name for each in exceeded]
        return {"queue": self.redis_queue, "measured": self.limits.measure(stats), "exceeded": names}


def _described(each: Exceeded) -> str:
    value, unit = (f"{each.value:.1f}", " s") if each.name.endswith("_age") else (f"{each.value:.0f}", "")
    return f"{each.name} is {value}{unit}, above {each.bound:g}{unit} ({each.grade})"
