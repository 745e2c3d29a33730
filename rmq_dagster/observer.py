"""`redis_queue_observer`: a sensor that observes a queue's asset and evaluates its checks. Its ticks start no run.

A schedule would take a run slot and start a process for each observation, every few minutes and for each queue.
Automation conditions are evaluated by a sensor that Dagster leaves switched off. A tick of this sensor reports its
observation itself.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import dagster as dg

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue
from rmq_core.work import StatsLimits
from rmq_dagster.assets import observation
from rmq_dagster.checks import QueueChecks, QueueLimits
from rmq_dagster.dead_letters import Letters
from rmq_dagster.names import dagster_name
from rmq_dagster.resources import resource_in
from rmq_dagster.tags import DATA_VERSION

OBSERVE_EVERY_S = 300


def redis_queue_observer(
    queue: str,
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

    asset: the key of redis_queue_asset. limits: as in redis_queue_checks; None checks dead letters only. every: seconds
    or timedelta between two observations. dead_letters: the key of redis_queue_dead_letters, which is observed too when
    they have changed. `sensor_options` go to `dagster.sensor`: name, default_status, ...
    """
    every_s = every.total_seconds() if isinstance(every, dt.timedelta) else every
    if not every_s >= 1:  # written so that NaN fails
        raise ConfigurationError(f"observe_every must be at least 1 s, not {every_s}; None switches the observer off")
    checks = QueueChecks(queue, asset, limits or QueueLimits())
    name = sensor_options.pop("name", None) or f"{dagster_name(queue)}_observer"

    @dg.sensor(
        name=name, required_resource_keys={resource_key}, minimum_interval_seconds=int(every_s), **sensor_options
    )
    def observer(context: dg.SensorEvaluationContext, **_: object) -> dg.SensorResult:
        resource = resource_in(context, resource_key)
        with resource.ticking(config) as (redis, peeking), LeasedQueue(redis, queue, peeking) as observed:
            stats = observed.stats()
            seen = [observation(observed, stats, context.instance, checks.asset_key)]
            if dead_letters is not None:
                seen += _changed(Letters(observed), context.instance, dead_letters)
        judged = [_evaluation(result) for result in checks.results(context.instance, stats)]
        return dg.SensorResult(asset_events=[*map(reported, seen), *judged])

    return observer


def _changed(letters: Letters, instance: dg.DagsterInstance, key: dg.AssetKey) -> list[dg.ObserveResult]:
    return [letters.observation(instance, key)] if letters.changed(instance, key) else []


def reported(seen: dg.ObserveResult) -> dg.AssetObservation:
    """Return the event for an observation that is made outside a run."""
    if seen.asset_key is None:
        raise AssertionError("an observation of a queue names its asset")
    tags = {} if seen.data_version is None else {DATA_VERSION: seen.data_version.value}
    return dg.AssetObservation(seen.asset_key, metadata=seen.metadata, tags=tags)


def _evaluation(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """Return the event for a check that is evaluated outside a run."""
    if result.asset_key is None or result.check_name is None:
        raise AssertionError("the checks of a queue name their asset and themselves")
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        metadata=result.metadata,
        severity=result.severity,
        description=result.description,
    )
