"""`redis_queue_status_sensors`: what a run held when it ended badly is ready again at once, not when its lease expires.

They are accelerators. Dagster handles a few runs a tick and none from before a sensor was switched on; the expiry of
leases is the guarantee. A settle always names the run as the owner, so that a late one cannot hurt a living retry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import dagster as dg

from rmq_core import ConfigurationError, Lease, LeaseAlreadySettled, LeasedConfig, LeasedQueue, LeaseLost
from rmq_dagster import runs
from rmq_dagster.partitions import QueuePartitions
from rmq_dagster.resources import RedisQueueResource
from rmq_dagster.sensors import TICK_RETRY_BUDGET_S, TICK_TIMEOUT_S
from rmq_dagster.tags import PARTITION

LEASES_LOOKED_AT = 1000
Settle: TypeAlias = Callable[[LeasedQueue, Lease], object]


def redis_queue_status_sensors(
    queues: str | Sequence[str] | QueuePartitions,
    *,
    name: str = "redis_queue",
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    **sensor_options: Any,
) -> list[dg.SensorDefinition]:
    """Two sensors, `<name>_on_failure` and `<name>_on_cancel`, for what runs hold of these queues when they end badly.

    A failed run's messages are nacked, unless Dagster will retry the run; a cancelled run's are given back untouched.
    `config` must be the one that the runs use. `sensor_options` go to Dagster's run status sensors: monitored_jobs,
    minimum_interval_seconds, default_status, ...
    """
    if not queues:
        raise ConfigurationError("queues must name at least one queue; it is empty")

    def made(ending: str, status: dg.DagsterRunStatus, react: Any) -> dg.SensorDefinition:
        def ended(context: Any, **_: object) -> None:
            resource: RedisQueueResource = getattr(context.resources, resource_key)
            settling = dataclasses.replace(config or resource.config(), retry_budget=TICK_RETRY_BUDGET_S)
            with resource.client(TICK_TIMEOUT_S) as redis:
                react(context, [LeasedQueue(redis, queue, settling) for queue in _held_by(context, queues)])

        return dg.RunStatusSensorDefinition(
            name=f"{name}_on_{ending}",
            run_status=status,
            run_status_sensor_fn=ended,
            required_resource_keys={resource_key},
            **sensor_options,
        )

    return [
        made("failure", dg.DagsterRunStatus.FAILURE, nack_failed),
        made("cancel", dg.DagsterRunStatus.CANCELED, release_canceled),
    ]


def nack_failed(context: dg.RunStatusSensorContext, queues: Iterable[LeasedQueue]) -> None:
    """Nack what a failed run holds, unless Dagster will retry it: the retry takes the lease over."""
    run = context.dagster_run
    if runs.will_be_retried(context.instance, run):
        context.log.info("Run %s will be retried; what it holds waits for the retry.", run.run_id)
        return
    reason = f"run {run.run_id} failed"
    settle_all(context, queues, lambda queue, lease: queue.nack(lease, reason=reason))


def release_canceled(context: dg.RunStatusSensorContext, queues: Iterable[LeasedQueue]) -> None:
    """Give back untouched what a cancelled run holds."""
    settle_all(context, queues, lambda queue, lease: queue.release(lease))


def settle_all(context: dg.RunStatusSensorContext, queues: Iterable[LeasedQueue], settle: Settle) -> None:
    """Settle every lease that the run still owns; a lease that somebody else owns by now is left alone."""
    owner = context.dagster_run.run_id
    for queue in queues:
        with queue:
            held = [lease.id for lease in queue.leases(limit=LEASES_LOOKED_AT) if lease.owner == owner]
            if not held:
                context.log.info("Run %s holds nothing of %r; nothing was changed.", owner, queue.name)
            for lease_id in held:
                context.log.info(_settled(queue, lease_id, owner, settle))


def _settled(queue: LeasedQueue, lease_id: str, owner: str, settle: Settle) -> str:
    try:
        # Under the same owner this counts no delivery, and whatever is left of the run is fenced off.
        settle(queue, queue.adopt(lease_id, owner=owner, if_owner=owner))
    except (LeaseLost, LeaseAlreadySettled) as gone:
        return f"Nothing was changed: {gone}"
    return f"The messages of lease {lease_id!r} are back in {queue.name!r}."


def _held_by(context: dg.RunStatusSensorContext, queues: str | Sequence[str] | QueuePartitions) -> list[str]:
    if not isinstance(queues, QueuePartitions):
        return [queues] if isinstance(queues, str) else list(queues)
    key = context.dagster_run.tags.get(PARTITION)
    return [queues.queue_of(key)] if key else []
