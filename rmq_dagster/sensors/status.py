"""`redis_queue_status_sensors`: requeue the messages of failed and cancelled runs before their leases expire.

These sensors only shorten the wait. Dagster handles a few runs per tick and none from before a sensor was switched on.
The ticks of doorbell sensors find the leases that remain, and the expiry of leases is the guarantee. Every settlement
names the run as the owner, so that a late settlement cannot affect a running retry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

import dagster as dg

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue
from rmq_dagster.partitions import QueuePartitions
from rmq_dagster.resources import resource_in
from rmq_dagster.runs import holders, identity
from rmq_dagster.runs.holders import free_slots
from rmq_dagster.runs.identity import PARTITION
from rmq_dagster.runs.requested import LEASES_LOOKED_AT
from rmq_dagster.sensors.building import with_interval

HowItEnded: TypeAlias = Callable[[dg.RunStatusSensorContext], holders.RunEnding | None]


def redis_queue_status_sensors(
    queues: str | Sequence[str] | QueuePartitions,
    *,
    name: str = "redis_queue",
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    **sensor_options: Any,
) -> list[dg.SensorDefinition]:
    """Return three sensors, `<name>_on_failure`, `_on_cancel` and `_on_canceling`, that settle leases of ended runs.

    The leases of a failed run expire at once, which counts a failed delivery of their messages, unless Dagster will
    retry the run; and so do those of a run that exceeded its maximum runtime. Those of a run that people terminated are
    released untouched, at once when all its steps wait for a retry. Each sensor also settles leases of other ended
    runs: those whose retry was cancelled or deleted, and those that were deleted. An ended run's slots of pools are
    freed, which Dagster does only if it is configured to. `config` must be the one that the
    runs use. `sensor_options` go to Dagster's run status sensors: monitored_jobs, minimum_interval_seconds (10),
    default_status, ...
    """
    if not queues:
        raise ConfigurationError("queues must name at least one queue; it is empty")

    def made(ending: str, status: dg.DagsterRunStatus, how: HowItEnded) -> dg.SensorDefinition:
        def ended(context: Any, **_: object) -> None:
            resource = resource_in(context, resource_key)
            with resource.ticking(config) as (redis, settling), ExitStack() as opened:
                names = _held_by(context, queues)
                settle_all(context, [opened.enter_context(LeasedQueue(redis, one, settling)) for one in names], how)

        return dg.RunStatusSensorDefinition(
            name=f"{name}_on_{ending}",
            run_status=status,
            run_status_sensor_fn=ended,
            required_resource_keys={resource_key},
            **with_interval(sensor_options),
        )

    return [
        made("failure", dg.DagsterRunStatus.FAILURE, failed),
        made(
            "cancel",
            dg.DagsterRunStatus.CANCELED,
            lambda context: holders.canceled(context.instance, context.dagster_run),
        ),
        made(
            "canceling",
            dg.DagsterRunStatus.CANCELING,
            lambda context: holders.canceling(context.instance, context.dagster_run),
        ),
    ]


def failed(context: dg.RunStatusSensorContext) -> holders.RunEnding | None:
    """Return how a failed run ended; None when Dagster will retry it: the retry takes the lease over."""
    run = context.dagster_run
    if identity.will_be_retried(context.instance, run):
        context.log.info("Run %s will be retried; its messages wait for the retry.", run.run_id)
        return None
    return holders.failure_of(run)


def settle_all(context: dg.RunStatusSensorContext, queues: Sequence[LeasedQueue], how: HowItEnded) -> None:
    """Settle every lease that the run still owns, and those of other ended runs; leave those of active runs alone."""
    if context.dagster_run.is_finished and (freed := free_slots(context.instance, context.dagster_run.run_id)):
        context.log.info("Freed %d slot(s) of pools that run %s still held.", freed, context.dagster_run.run_id)
    if ending := how(context):
        for queue in queues:
            _settle(context, queue, ending)
    for done in holders.settle_ended(context.instance, queues):
        context.log.info(done)


def _settle(context: dg.RunStatusSensorContext, queue: LeasedQueue, ending: holders.RunEnding) -> None:
    owner = context.dagster_run.run_id
    held = [lease.id for lease in queue.admin.leases(limit=LEASES_LOOKED_AT) if lease.owner == owner]
    if not held:
        context.log.info("Run %s holds no lease of %r; nothing was changed.", owner, queue.name)
    for lease_id in held:
        context.log.info(holders.settled(queue, lease_id, owner, ending))


def _held_by(context: dg.RunStatusSensorContext, queues: str | Sequence[str] | QueuePartitions) -> list[str]:
    if not isinstance(queues, QueuePartitions):
        return [queues] if isinstance(queues, str) else list(queues)
    key = context.dagster_run.tags.get(PARTITION)
    return [queues.queue_of(key)] if key else []
