"""`build_redis_queue_sensor`, and `redis_queue_observer`, which observes a queue's asset and starts no run.

For observations, a schedule would take a run slot and start a process every few minutes and for each queue. Automation
conditions are evaluated by a sensor that Dagster leaves switched off. A tick of the observer reports its observation
itself.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import dagster as dg

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, WorkQueue
from rmq_core.orchestrate import StatsLimits, depth
from rmq_core.reports import QueueStats
from rmq_dagster.assets.checks import QueueChecks, QueueLimits
from rmq_dagster.assets.dead_letters import Letters
from rmq_dagster.assets.queue import observation
from rmq_dagster.partitions import QueuePartitions, groups_of, named_after, only_queue, stats_of
from rmq_dagster.resources import REPEAT_AFTER_S, resource_in
from rmq_dagster.runs.holders import ADVICE, frees_slots, pools_of
from rmq_dagster.runs.identity import DATA_VERSION
from rmq_dagster.runs.requested import repository_of
from rmq_dagster.runs.requesting import QUEUES_LOOKED_AT, Doorbell, some

TICK_EVERY_S = 10  # at Dagster's default of 30, messages of a deleted run would wait for more than 30 s


def build_redis_queue_sensor(
    queue: str | QueuePartitions,
    *,
    target: Any,
    batch: int = 1,
    max_in_flight_runs: int = 10,
    min_messages: int = 1,
    max_age: dt.timedelta | float | None = None,
    repeat_after: dt.timedelta | float = REPEAT_AFTER_S,
    claim_for: dt.timedelta | float | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    groups: Collection[str] | None = None,
    **sensor_options: Any,
) -> dg.SensorDefinition:
    """Return a sensor that requests runs of `target` while `queue` has work.

    Each tick requests one run per `batch` ready messages, and one per claim of isolated messages (those that failed
    together and are tried apart from the others), minus the runs of this sensor that are already on their way. At most
    `max_in_flight_runs` are on their way at a time. A run that has claimed no longer counts: Dagster's own concurrency
    limits decide how many runs work at once. Leases of cancelled or deleted runs are released, those of runs that
    failed for good expire at once, which counts a failed delivery. Times are seconds or timedelta.

    queue: a name, or QueuePartitions, whose queues, or groups, are the partitions of `target`.
    min_messages, max_age: request runs when this many messages are ready, or when the oldest has waited this long.
    repeat_after: how long a run that left Dagster's queue and has not claimed still counts as on its way.
    claim_for: how long a tick claims on behalf of the run that it requests; None lets the run claim. Ticks extend the
    claim while its run waits; once the run is launched, or while the sensor pauses, the claim lasts this long. Handing
    over to the run counts as a delivery; one step of the run may claim.
    config: must be the one that the runs use; None means that of the resource.
    groups: count, and with claim_for claim, only messages of these groups, in a queue that has groups. The runs have to
    claim from the same: `claimed(..., groups=...)`.

    Further `sensor_options` go to `dagster.sensor`: name, minimum_interval_seconds (10), default_status, ...
    """
    named = named_after(queue)
    name = sensor_options.pop("name", None) or f"{named}_doorbell"
    limits = (batch, max_in_flight_runs, _seconds(repeat_after) or 0, min_messages)
    pools = sorted(pools_of(target))
    requester = Doorbell(queue, name, *limits, _seconds(max_age), _seconds(claim_for), groups=groups)

    @dg.sensor(name=name, target=target, required_resource_keys={resource_key}, **with_interval(sensor_options))
    def doorbell(context: dg.SensorEvaluationContext, **_: object) -> dg.SensorResult:
        # The daemon passes resources in the context only; a direct call (in a test) also passes them as keywords.
        resource = resource_in(context, resource_key)
        if pools and not frees_slots(context.instance):
            context.log.warning("A killed worker keeps its slot of pool %s for good: %s", ", ".join(pools), ADVICE)
        with resource.ticking(config) as (redis, peeking):
            return dataclasses.replace(requester, repository=repository_of(context)).tick(context, redis, peeking)

    return doorbell


def with_interval(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a sensor, with the default tick interval when they give none."""
    return {**options, "minimum_interval_seconds": options.get("minimum_interval_seconds") or TICK_EVERY_S}


def _seconds(duration: dt.timedelta | float | None) -> float | None:
    return duration.total_seconds() if isinstance(duration, dt.timedelta) else duration


OBSERVE_EVERY_S = 300
_ERROR, _NAMED = dg.AssetCheckSeverity.ERROR, 100
Seen: TypeAlias = dg.AssetObservation | dg.AssetMaterialization | dg.AssetCheckEvaluation


def redis_queue_observer(
    queue: str | QueuePartitions,
    *,
    asset: Any,
    every: dt.timedelta | float = OBSERVE_EVERY_S,
    limits: StatsLimits | None = None,
    dead_letters: dg.AssetKey | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    **sensor_options: Any,
) -> dg.SensorDefinition:
    """Return a sensor that reports the content of `queue` as an observation of `asset`, and the results of its checks.

    With QueuePartitions, it observes each partition that holds messages, and once more when it is empty; a check fails
    if that of a partition fails, and its metadata name these.
    asset: the key of redis_queue_asset. limits: as in redis_queue_checks; None checks dead letters only. every: seconds
    or timedelta between two observations. dead_letters: the key of redis_queue_dead_letters, which is observed too when
    they have changed. `sensor_options` go to `dagster.sensor`: name, default_status, ...
    """
    checks = QueueChecks(queue, asset, limits or QueueLimits())
    options = observer_options(every, resource_key, sensor_options)
    name = options.pop("name", None) or f"{named_after(queue)}_observer"

    @dg.sensor(name=name, **options)
    def observer(context: dg.SensorEvaluationContext, **_: object) -> dg.SensorResult:
        with resource_in(context, resource_key).ticking(config) as (redis, peeking):
            if isinstance(queue, QueuePartitions):
                return _partitions_seen(context, redis, peeking, queue, checks)
            with LeasedQueue(redis, queue, peeking) as observed:
                events = look(observed, checks, context.instance)[1]
                if dead_letters is not None:
                    letters = Letters(observed)
                    if letters.changed(context.instance, dead_letters):
                        events.insert(1, reported(letters.observation(context.instance, dead_letters)))
        return dg.SensorResult(asset_events=events)

    return observer


def observer_options(every: dt.timedelta | float, resource_key: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a sensor that observes. Raises ConfigurationError."""
    every_s = every.total_seconds() if isinstance(every, dt.timedelta) else every
    if not every_s >= 1:  # written so that NaN fails
        raise ConfigurationError(f"observe_every must be at least 1 s, not {every_s}; None switches the observer off")
    return {**options, "required_resource_keys": {resource_key}, "minimum_interval_seconds": int(every_s)}


def look(
    queue: WorkQueue, checks: QueueChecks, instance: dg.DagsterInstance, partition: str | None = None
) -> tuple[QueueStats, list[Seen]]:
    """Return what a queue holds, and the events that report it: an observation and the results of the checks."""
    groups = groups_of(checks.queue, partition)
    stats = stats_of(queue, groups)
    seen = observation(queue, stats, instance, checks.asset_key, partition, groups)
    judged = [_evaluation(result) for result in checks.results(instance, stats, partition)]
    return stats, [reported(seen, partition), *judged]


def _partitions_seen(
    context: dg.SensorEvaluationContext,
    redis: Any,
    config: LeasedConfig,
    queue: QueuePartitions,
    checks: QueueChecks,
) -> dg.SensorResult:
    """Observe the partitions with messages, and those that had some at the last tick, which the cursor names.

    A check gets one result for all of them: Dagster cannot store a second one of a partition from outside a run. Those
    of `checks.of_queue` are evaluated once, for the queue.
    """
    keys = queue.holding(redis, config) | {queue.named(key): key for key in json.loads(context.cursor or "[]")}
    if left_out := queue.left_out(keys, context.instance):
        context.log.warning(queue.refusal(left_out))
    events: list[Seen] = []
    full = []
    only = only_queue(queue)
    if only is not None:
        with LeasedQueue(redis, only, config) as observed:
            results = map(_evaluation, checks.results(context.instance, observed.stats()))
            events += [each for each in results if each.check_name in checks.of_queue]
    judged: dict[str, list[tuple[str, dg.AssetCheckEvaluation]]] = {}
    names = some(keys.keys() - set(left_out), QUEUES_LOOKED_AT)
    for name in names:
        with LeasedQueue(redis, queue.queue_of(keys[name]), config) as observed:
            stats, found = look(observed, checks, context.instance, keys[name])
        events.append(found[0])
        for each in found[1:]:
            if isinstance(each, dg.AssetCheckEvaluation) and each.check_name not in checks.of_queue:
                judged.setdefault(each.check_name, []).append((keys[name], each))
        full += [keys[name]] if depth(stats) or (stats.dead and only is None) else []
    return dg.SensorResult(
        asset_events=[*events, *map(_of_all, judged.values())],
        dynamic_partitions_requests=queue.request([keys[name] for name in names], context.instance) or None,
        cursor=json.dumps(sorted(full)),
    )


def _of_all(found: Sequence[tuple[str, dg.AssetCheckEvaluation]]) -> dg.AssetCheckEvaluation:
    """Return the worst result of a check, with the partitions that failed, if any."""
    failed = sorted(key for key, each in found if not each.passed)
    worst = max((each for _, each in found), key=lambda each: (not each.passed, each.severity == _ERROR))
    return dg.AssetCheckEvaluation(
        asset_key=worst.asset_key, check_name=worst.check_name, passed=worst.passed, severity=worst.severity,
        description=worst.description, metadata={**worst.metadata, "rmq/failed_partitions": failed[:_NAMED]},
    )  # fmt: skip


def reported(seen: dg.ObserveResult, partition: str | None = None) -> dg.AssetObservation:
    """Return the event for an observation that is made outside a run."""
    if seen.asset_key is None:
        raise AssertionError("an observation of a queue names its asset")
    tags = {} if seen.data_version is None else {DATA_VERSION: seen.data_version.value}
    return dg.AssetObservation(seen.asset_key, metadata=seen.metadata, tags=tags, partition=partition)


def _evaluation(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """Return the event for a check that is evaluated outside a run."""
    if result.asset_key is None or result.check_name is None:
        raise AssertionError("the checks of a queue name their asset and themselves")
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key, check_name=result.check_name, passed=result.passed, metadata=result.metadata,
        severity=result.severity, description=result.description,
    )  # fmt: skip
