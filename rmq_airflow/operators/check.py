"""Check the numbers of a queue, or a publication: fail when it is not well, so that Airflow's notifiers report it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any, TypedDict

from airflow.providers.common.compat.sdk import AirflowException, BaseOperator, Context

from rmq_airflow.batch import check_queue
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.links import LinkedTask
from rmq_airflow.waiting import PublicationReport, report_of
from rmq_core import ConfigurationError, LeasedConfig
from rmq_core.orchestrate import ALERTS, Exceeded, StatsLimits, unmet


class CheckReport(TypedDict):
    """The return value of the operator: what each limit was compared with, and the names of those exceeded."""

    queue: str
    measured: dict[str, float]
    exceeded: list[str]


class RedisQueueCheckOperator(LinkedTask, BaseOperator):
    """
    Fail when a number of a queue is above the ``error`` bound of its limit; log a warning above ``warn``.

    Claims nothing. The limits are by default those of the alerts that RMQ ships for Prometheus; its ``dead_letters``
    are all that the queue holds. With ``publication``, fail unless each of its messages is acked or removed; return
    ``{"queue", "publication", "messages", "acked", "dead", "removed"}``.

    .. seealso:: :ref:`howto/operator:RedisQueueCheckOperator`

    :param redis_queue: the queue to check (templated)
    :param limits: a ``StatsLimits``; ``rmq_core.orchestrate.ALERTS.stats`` when None
    :param queue_config: by default that of the connection
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    :param publication: check the messages that were published under this name instead of the queue; a RedisQueueSensor
        with the same ``publication`` waits for their end. Not with ``limits`` (templated)
    """

    template_fields: Sequence[str] = ("redis_queue", "redis_queue_conn_id", "publication")

    def __init__(
        self,
        *,
        redis_queue: str,
        limits: StatsLimits | None = None,
        queue_config: LeasedConfig | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        publication: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_queue(redis_queue, queue_config)
        if publication is not None and limits is not None:
            raise ConfigurationError("`publication` is checked by its own counts: leave `limits` out")
        self.redis_queue = redis_queue
        self.limits = limits or ALERTS.stats
        self.queue_config = queue_config
        self.redis_queue_conn_id = redis_queue_conn_id
        self.publication = publication

    def execute(self, context: Context) -> CheckReport | PublicationReport:  # noqa: ARG002  Airflow's signature
        """Check queue or publication. Raises AirflowException above an ``error`` bound, or for what is not done."""
        hook = RedisQueueHook(self.redis_queue_conn_id)
        if self.publication is not None:
            return self._check_publication(hook, self.publication)
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

    def _check_publication(self, hook: RedisQueueHook, name: str) -> PublicationReport:
        needed_by = f"{type(self).__name__} with publication"
        with hook.queue(self.redis_queue, self.queue_config, needed_by=needed_by) as queue:
            found = queue.publication(name)
        if why := unmet(found):
            told = f"publication {name!r}: {why}, of {found.messages} messages"
            raise AirflowException(f"Queue {self.redis_queue}: {told}")
        return report_of(self.redis_queue, found)


def _described(each: Exceeded) -> str:
    value, unit = (f"{each.value:.1f}", " s") if each.name.endswith("_age") else (f"{each.value:.0f}", "")
    return f"{each.name} is {value}{unit}, above {each.bound:g}{unit} ({each.grade})"
