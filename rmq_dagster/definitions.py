"""`redis_queue_definitions`: the sensors, the asset and the checks of a queue, in one call."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig
from rmq_core.orchestrate import StatsLimits
from rmq_dagster.assets.checks import redis_queue_checks
from rmq_dagster.assets.dead_letters import redis_queue_dead_letters
from rmq_dagster.assets.queue import redis_queue_asset
from rmq_dagster.names import dead_letters_asset_name, queue_asset_name
from rmq_dagster.partitions import QueuePartitions, named_after, only_queue
from rmq_dagster.resources import RedisQueueResource
from rmq_dagster.sensors.building import OBSERVE_EVERY_S, build_redis_queue_sensor, redis_queue_observer
from rmq_dagster.sensors.redrive import redis_queue_redrive_job
from rmq_dagster.sensors.status import redis_queue_status_sensors


def redis_queue_definitions(
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

    There are also the asset `<queue>_dead_letters` and the job `<queue>_redrive` for chosen dead letters. A further
    sensor, `<queue>_observer`, observes the assets and evaluates the checks every `observe_every` seconds (or
    timedelta), without a run; None leaves both to schedules of your own. `publishers`: the assets that publish, from
    which the lineage leads to the queue. `sensor_options` are those of build_redis_queue_sensor: batch,
    max_in_flight_runs, minimum_interval_seconds, ...; a `default_status` applies to every sensor returned here. The
    checks compare `limits`; without them a dead letter is an error. With QueuePartitions, the asset, its checks and its
    plots have partitions; there is an asset for dead letters only if the partitions are groups. `resource` is bound to
    `resource_key`; leave it out when another part of the project binds one.

    >>> defs = dg.Definitions.merge(redis_queue_definitions("flights", target=departures, batch=100), others)
    """
    options: dict[str, Any] = {"config": config, "resource_key": resource_key}
    name = named_after(queue)
    status = {key: sensor_options[key] for key in ("default_status",) if key in sensor_options}
    doorbell = build_redis_queue_sensor(queue, target=target, **options, **sensor_options)
    endings = redis_queue_status_sensors(queue, name=name, **options, **status)
    monitoring = _monitoring(queue, limits, publishers, options)
    only = only_queue(queue)
    letters = None if only is None else dg.AssetKey(dead_letters_asset_name(only))
    observers = []
    if observe_every is not None:
        terms: dict[str, Any] = {"every": observe_every, "limits": limits, **options, **status}
        observers = [redis_queue_observer(queue, asset=queue_asset_name(name), dead_letters=letters, **terms)]
    return dg.Definitions(
        sensors=[doorbell, *endings, *observers],
        jobs=[redis_queue_redrive_job(only or queue, asset=letters, **options)],
        resources={} if resource is None else {resource_key: resource},
        **monitoring,
    )


def _monitoring(
    queue: str | QueuePartitions, limits: StatsLimits | None, publishers: Sequence[Any], options: dict[str, Any]
) -> dict[str, Any]:
    """Return the observable assets of a queue and of its dead letters, and the checks."""
    key = queue_asset_name(named_after(queue))
    checks = redis_queue_checks(queue, asset=key, limits=limits, **options)
    asset = redis_queue_asset(queue, key=key, deps=publishers, **options)
    only = only_queue(queue)
    letters = [] if only is None else [redis_queue_dead_letters(only, deps=[key], **options)]
    return {"assets": [asset, *letters], "asset_checks": [checks]}
