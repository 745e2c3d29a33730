"""`redis_queue_definitions`: the sensors, the asset and the checks of a queue, in one call."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import dagster as dg

from rmq_core import ConfigurationError, LeasedConfig
from rmq_core.work import StatsLimits
from rmq_dagster.assets import redis_queue_asset
from rmq_dagster.checks import redis_queue_checks
from rmq_dagster.names import dagster_name, queue_asset_name
from rmq_dagster.observer import OBSERVE_EVERY_S, redis_queue_observer
from rmq_dagster.partitions import QueuePartitions
from rmq_dagster.resources import RedisQueueResource
from rmq_dagster.sensors import build_redis_queue_sensor
from rmq_dagster.status import redis_queue_status_sensors


def redis_queue_definitions(  # noqa: PLR0913  the options of what it defines are its parameters
    queue: str | QueuePartitions,
    *,
    target: Any,
    limits: StatsLimits | None = None,
    resource: RedisQueueResource | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    observe_every: dt.timedelta | float | None = OBSERVE_EVERY_S,
    publishers: Sequence[Any] = (),
    **sensor_options: Any,
) -> dg.Definitions:
    """Return the sensor that requests `target`, the status sensors, and the asset `<queue>_queue` with its checks.

    A further sensor, `<queue>_observer`, observes the asset and evaluates the checks every `observe_every` seconds (or
    timedelta), without a run; None leaves both to schedules of your own. `publishers`: the assets that publish, from
    which the lineage leads to the queue. `sensor_options` are those of
    build_redis_queue_sensor: batch, max_in_flight_runs, minimum_interval_seconds, ...; a `default_status` applies to
    every sensor returned here. The checks compare `limits`; without them a dead letter is an error. Queues with
    partitions have no asset, no checks and no observer. `resource` is bound to `resource_key`; leave it out when
    another part of the project binds one.

    >>> defs = dg.Definitions.merge(redis_queue_definitions("flights", target=departures, batch=100), others)
    """
    options: dict[str, Any] = {"config": config, "resource_key": resource_key}
    name = dagster_name(queue if isinstance(queue, str) else queue.prefix)
    status = {key: sensor_options[key] for key in ("default_status",) if key in sensor_options}
    bell = build_redis_queue_sensor(queue, target=target, **options, **sensor_options)
    endings = redis_queue_status_sensors(queue, name=name, **options, **status)
    key = queue_asset_name(queue) if isinstance(queue, str) else ""
    monitoring = _monitoring(queue, key, limits, publishers, options)
    observers = []
    if isinstance(queue, str) and observe_every is not None:
        terms: dict[str, Any] = {"every": observe_every, "limits": limits, **options, **status}
        observers = [redis_queue_observer(queue, asset=key, **terms)]
    resources = {} if resource is None else {resource_key: resource}
    return dg.Definitions(sensors=[bell, *endings, *observers], resources=resources, **monitoring)


def _monitoring(
    queue: str | QueuePartitions,
    key: str,
    limits: StatsLimits | None,
    publishers: Sequence[Any],
    options: dict[str, Any],
) -> dict[str, Any]:
    """Return the observable asset of a queue, and the checks on it; nothing for partitions."""
    if isinstance(queue, str):
        checks = redis_queue_checks(queue, asset=key, limits=limits, **options)
        return {"assets": [redis_queue_asset(queue, key=key, deps=publishers, **options)], "asset_checks": [checks]}
    if limits is not None or publishers:
        raise ConfigurationError(
            "limits need one queue, and publishers too; with partitions, leave them out or define an asset and checks"
            " for each queue"
        )
    return {}
