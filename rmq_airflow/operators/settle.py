"""Settle a lease from outside the task that held it.

Law: settle a lease only if it still has the owner that the handover names. A lease that another task, such as a retry,
has adopted is left alone, and so is one that no longer exists. Both are a success: nothing is left to settle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, get_args

from airflow.providers.common.compat.sdk import BaseOperator, Context, XComArg

from rmq_airflow.batch import HandedOver, check_handed, check_queue
from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.lineage import QueueLineageMixin
from rmq_airflow.links import RedisQueueLink
from rmq_airflow.metrics import report_counts
from rmq_core import ConfigurationError, LeaseAlreadySettled, LeasedConfig, LeasedQueue, LeaseLost

Verb = Literal["ack", "nack", "release"]
Action = Literal[Verb, "conclude"]
VERBS: dict[Verb, str] = {"ack": "acked", "nack": "failed", "release": "released"}


class SettledReport(TypedDict):
    """The return value of the operator. `left_alone` is the reason why nothing was settled, or None.

    `action` is what was done, or would have been done.
    """

    queue: str
    lease_id: str
    action: Verb
    settled: int
    left_alone: str | None


class RedisQueueSettleOperator(QueueLineageMixin, BaseOperator):
    """
    Ack, nack or release a lease that a sensor with ``hand_over=True`` claimed; intended for teardown tasks.

    ``nack`` and ``release`` are for a lease that no task has adopted; a task that has adopted a lease settles it
    itself. ``ack`` is for work that cannot adopt a lease, such as a container that got its input some other way.
    ``conclude`` is for a driver that got the lease from a sensor with ``secrets``: nothing is left to do if it acked
    the messages; they are nacked if it adopted them and left them, and released if it never adopted them.

    .. seealso:: :ref:`howto/operator:RedisQueueSettleOperator`

    :param hand_over: the output of the sensor (templated)
    :param action: ``ack`` the messages, ``nack`` them (a delivery is counted), ``release`` them or ``conclude``
    :param reason: kept in the history of nacked messages (templated)
    :param queue_config: by default that of the connection
    :param redis_queue_conn_id: connection of type ``redis_queue`` (templated)
    """

    template_fields: Sequence[str] = ("hand_over", "reason", "redis_queue_conn_id")
    template_fields_renderers = {"hand_over": "json"}  # noqa: RUF012  as in every operator of Airflow
    operator_extra_links = (RedisQueueLink(),)
    ui_color = "#f5b7b1"

    def __init__(
        self,
        *,
        hand_over: Mapping[str, Any] | XComArg | None,
        action: Action = "nack",
        reason: str | None = None,
        queue_config: LeasedConfig | None = None,
        redis_queue_conn_id: str = RedisQueueHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if action not in get_args(Action):
            raise ConfigurationError(f"`action` must be one of {get_args(Action)}, not {action!r}")
        check_queue("given by hand_over", queue_config)
        self.hand_over = hand_over
        self.action = action
        self.reason = reason
        self.queue_config = queue_config
        self.redis_queue_conn_id = redis_queue_conn_id

    def execute(self, context: Context) -> SettledReport | None:  # noqa: ARG002  Airflow's signature
        """Settle the lease if its owner is unchanged since the handover; return None if nothing was handed over."""
        if self.hand_over is None:
            self.log.info("Nothing was handed over.")
            return None
        handed = check_handed(self.hand_over)
        hook = RedisQueueHook(self.redis_queue_conn_id)
        with hook.queue(handed["queue"], self.queue_config, needed_by=type(self).__name__) as queue:
            verb = self._verb(queue, handed)
            report: SettledReport = {
                "queue": handed["queue"],
                "lease_id": handed["lease_id"],
                "action": verb,
                "settled": 0,
                "left_alone": None,
            }
            try:
                report["settled"] = self._settle(queue, handed, verb)
            except (LeaseLost, LeaseAlreadySettled) as error:
                report["left_alone"] = str(error)
        self.log.info("Settled: %s", report)
        counts = {VERBS[verb]: report["settled"], "left_alone": int(report["left_alone"] is not None)}
        report_counts(self, handed["queue"], **counts)
        return report

    def _verb(self, queue: LeasedQueue, handed: HandedOver) -> Verb:
        if self.action != "conclude":
            return self.action
        info = queue.lease_info(handed["lease_id"])
        # Adopting raises the fence, also under the owner that a driver keeps.
        return "release" if info is not None and info.fence == handed.get("fence", info.fence) else "nack"

    def _settle(self, queue: LeasedQueue, handed: HandedOver, verb: Verb) -> int:
        # Adopting under the same owner counts no delivery, and creates the token that settling needs.
        owner = handed["owner"]
        lease = queue.adopt(handed["lease_id"], owner=owner, if_owner=owner)
        if verb == "nack":
            return queue.nack(lease, reason=self.reason or self._blame()).settled
        return (queue.ack if verb == "ack" else queue.release)(lease).settled

    def _blame(self) -> str:
        if self.action == "conclude":
            return "the driver that adopted these messages did not settle them"
        return "settled by another task"
