"""`build_redis_queue_sensor`: a Dagster sensor around a `Doorbell`."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_dagster.doorbell import Doorbell
from rmq_dagster.names import dagster_name
from rmq_dagster.partitions import QueuePartitions
from rmq_dagster.requested import repository_of
from rmq_dagster.resources import RING_AGAIN_AFTER_S, RedisQueueResource

TICK_EVERY_S = 10  # Dagster's 30 would leave what a deleted run held with nobody for longer than that


def build_redis_queue_sensor(  # noqa: PLR0913  what a sensor can do is said where it is defined
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
    """A sensor that requests runs of `target` while `queue` has work.

    Each tick requests one run per `batch` ready messages, and one per claim that messages take which failed together
    and are tried apart; less the runs of this sensor that are already on their way, of which there are at most
    `max_in_flight_runs` at a time. A run that has claimed no longer counts: how many runs work at once is for Dagster's
    own concurrency limits to say. What a run holds that was cancelled or deleted goes back, what one holds that failed
    for good is nacked. Times are seconds or timedelta.

    queue: a name, or QueuePartitions, whose queues are the dynamic partitions of `target`.
    min_messages, max_age: ring when so many are ready, or when the oldest has waited so long.
    ring_again_after: how long a run that left Dagster's queue and has not claimed keeps the bell silent.
    claim_for: claim in the tick instead of ringing. Ticks hold the claim while its run waits; a run that is launched,
    and a sensor that pauses, have so long. Handing over to the run counts as a delivery; one step of the run may claim.
    config: must be the one that the runs use; that of the resource when None.

    Further `sensor_options` go to `dagster.sensor`: name, minimum_interval_seconds (10), default_status, ...
    """
    named = queue if isinstance(queue, str) else queue.prefix
    name = sensor_options.pop("name", None) or dagster_name(named) + "_doorbell"
    limits = (batch, max_in_flight_runs, _seconds(ring_again_after) or 0, min_messages)
    bell = Doorbell(queue, name, *limits, _seconds(max_age), _seconds(claim_for))

    @dg.sensor(name=name, target=target, required_resource_keys={resource_key}, **with_interval(sensor_options))
    def doorbell(context: dg.SensorEvaluationContext, **_: object) -> dg.SensorResult:
        # The daemon gives resources in the context only, a call by hand (in a test) as keywords too.
        resource: RedisQueueResource = getattr(context.resources, resource_key)
        with resource.ticking(config) as (redis, peeking):
            return dataclasses.replace(bell, repository=repository_of(context)).ring(context, redis, peeking)

    return doorbell


def with_interval(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a sensor, with how often it ticks when they do not say."""
    return {**options, "minimum_interval_seconds": options.get("minimum_interval_seconds") or TICK_EVERY_S}


def _seconds(duration: dt.timedelta | float | None) -> float | None:
    return duration.total_seconds() if isinstance(duration, dt.timedelta) else duration
