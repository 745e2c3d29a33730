"""`build_redis_queue_sensor`: a Dagster sensor around a `Doorbell`."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster.doorbell import Doorbell
from rmq_dagster.partitions import QueuePartitions, named_after
from rmq_dagster.pools import ADVICE, frees_slots, pools_of
from rmq_dagster.requested import repository_of
from rmq_dagster.resources import RING_AGAIN_AFTER_S, resource_in

TICK_EVERY_S = 10  # at Dagster's default of 30, messages of a deleted run would wait for more than 30 s


def build_redis_queue_sensor(
    queue: str | QueuePartitions,
    *,
    target: Any,
    batch: int = 1,
    max_in_flight_runs: int = 10,
    min_messages: int = 1,
    max_age: dt.timedelta | float | None = None,
    ring_again_after: dt.timedelta | float = RING_AGAIN_AFTER_S,
    claim_for: dt.timedelta | float | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    **sensor_options: Any,
) -> dg.SensorDefinition:
    """Return a sensor that requests runs of `target` while `queue` has work.

    Each tick requests one run per `batch` ready messages, and one per claim of isolated messages (those that failed
    together and are tried apart from the others), minus the runs of this sensor that are already on their way. At most
    `max_in_flight_runs` are on their way at a time. A run that has claimed no longer counts: Dagster's own concurrency
    limits decide how many runs work at once. Leases of cancelled or deleted runs are released, those of runs that
    failed for good expire at once, which counts a failed delivery. Times are seconds or timedelta.

    queue: a name, or QueuePartitions, whose queues are the dynamic partitions of `target`.
    min_messages, max_age: request runs when this many messages are ready, or when the oldest has waited this long.
    ring_again_after: how long a run that left Dagster's queue and has not claimed still counts as on its way.
    claim_for: how long a tick claims on behalf of the run that it requests; None lets the run claim. Ticks extend the
    claim while its run waits; once the run is launched, or while the sensor pauses, the claim lasts this long. Handing
    over to the run counts as a delivery; one step of the run may claim.
    config: must be the one that the runs use; None means that of the resource.

    Further `sensor_options` go to `dagster.sensor`: name, minimum_interval_seconds (10), default_status, ...
    """
    named = named_after(queue)
    name = sensor_options.pop("name", None) or f"{named}_doorbell"
    limits = (batch, max_in_flight_runs, _seconds(ring_again_after) or 0, min_messages)
    pools = sorted(pools_of(target))
    bell = Doorbell(queue, name, *limits, _seconds(max_age), _seconds(claim_for))

    @dg.sensor(name=name, target=target, required_resource_keys={resource_key}, **with_interval(sensor_options))
    def doorbell(context: dg.SensorEvaluationContext, **_: object) -> dg.SensorResult:
        # The daemon passes resources in the context only; a direct call (in a test) also passes them as keywords.
        resource = resource_in(context, resource_key)
        if pools and not frees_slots(context.instance):
            context.log.warning("A killed worker keeps its slot of pool %s for good: %s", ", ".join(pools), ADVICE)
        with resource.ticking(config) as (redis, peeking):
            return dataclasses.replace(bell, repository=repository_of(context)).ring(context, redis, peeking)

    return doorbell


def with_interval(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a sensor, with the default tick interval when they give none."""
    return {**options, "minimum_interval_seconds": options.get("minimum_interval_seconds") or TICK_EVERY_S}


def _seconds(duration: dt.timedelta | float | None) -> float | None:
    return duration.total_seconds() if isinstance(duration, dt.timedelta) else duration
