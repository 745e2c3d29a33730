"""The queues that a server was found to have, as assets with checks, and one sensor that observes all of them.

One sensor, because Dagster needs more than a minute to load some thousand. It reports each look at a queue as a
materialization too, for Dagster evaluates freshness policies by these alone: an asset is stale when no tick has looked,
and when its queue is gone or cannot be read.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from typing import Any
from zlib import crc32

import dagster as dg

from rmq_core import (
    ConfigurationError,
    LeasedConfig,
    LeasedQueue,
    QueueUnavailable,
    RedisMessageQueueError,
    WorkQueue,
    disciplines,
    open_queue,
)
from rmq_core.orchestrate import StatsLimits
from rmq_dagster.assets.checks import QueueChecks
from rmq_dagster.assets.queue import about, redis_queue_asset
from rmq_dagster.names import dagster_name
from rmq_dagster.resources import resource_in
from rmq_dagster.sensors.building import Seen, look, observer_options

LOOKING_S = 30  # of the 60 that Dagster gives a tick; the next one goes on where this one stopped


def discovered_definitions(
    queues: Mapping[str, str],
    *,
    prefix: str,
    limits: StatsLimits,
    every: float | None,
    stale_after: float | None,
    resource_key: str,
    chosen: Sequence[str] = ("*",),
    **sensor_options: Any,
) -> dg.Definitions:
    """Return an asset `<prefix>/<queue>` with checks for each queue, and the sensor `<prefix>_observer`.

    queues: the discipline of each. every: seconds between two observations, None for no sensor. stale_after: for how
    many seconds an observation is fresh. chosen: patterns of the queues that the sensor misses if they are new.
    """
    if every is not None and stale_after is not None and not stale_after > every:
        raise ConfigurationError(
            f"stale_after_seconds must be more than observe_every_seconds={every:g}, not {stale_after:g}"
        )
    checks = {name: QueueChecks(name, key, limits) for name, key in keys_of(queues, prefix).items()}
    terms: dict[str, Any] = {"resource_key": resource_key}
    options: dict[str, Any] = {"group_name": dagster_name(prefix)}
    if every is not None and stale_after is not None:
        options["freshness_policy"] = dg.FreshnessPolicy.time_window(fail_window=dt.timedelta(seconds=stale_after))
    assets = [
        redis_queue_asset(
            name, key=checks[name].asset_key, discipline=discipline,
            metadata=about(name) | {"rmq/discipline": discipline}, **terms, **options,
        )
        for name, discipline in queues.items()
    ]  # fmt: skip
    judges = [
        checks[name].defined(f"{'__'.join(checks[name].asset_key.path)}_checks", None, resource_key, discipline)
        for name, discipline in queues.items()
    ]
    observers = [] if every is None else [_observer(prefix, checks, chosen, every, resource_key, sensor_options)]
    return dg.Definitions(assets=assets, asset_checks=judges, sensors=observers)


def keys_of(queues: Collection[str], prefix: str) -> dict[str, dg.AssetKey]:
    """Return the key of the asset of each queue: of those whose keys would be equal, with a digest of the name."""
    named = Counter(map(dagster_name, queues))
    digests = {name: f"_{crc32(name.encode()):08x}" for name in queues if named[dagster_name(name)] > 1}
    return {
        name: dg.AssetKey([prefix, dagster_name(name) + (digests.get(name, "") if dagster_name(name) != name else "")])
        for name in queues
    }


def matching(queues: Collection[str], patterns: Sequence[str]) -> list[str]:
    """Return the queues that one of the patterns matches, and none of those that begin with `!`, in order."""
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")] or ["*"]
    unwanted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    return sorted(
        name
        for name in queues
        if any(fnmatchcase(name, pattern) for pattern in wanted)
        and not any(fnmatchcase(name, pattern) for pattern in unwanted)
    )


def _observer(
    prefix: str,
    checks: Mapping[str, QueueChecks],
    chosen: Sequence[str],
    every: float,
    resource_key: str,
    options: dict[str, Any],
) -> dg.SensorDefinition:
    """Return the sensor that observes the queues of these checks."""

    @dg.sensor(name=f"{dagster_name(prefix)}_observer", **observer_options(every, resource_key, options))
    def observer(context: dg.SensorEvaluationContext, **_: object) -> dg.SensorResult:
        events: list[Seen] = []
        until, last = time.monotonic() + LOOKING_S, context.cursor or ""
        with resource_in(context, resource_key).ticking(None) as (redis, peeking):
            there = disciplines(redis)
            for name in sorted(checks.keys() & there.keys(), key=lambda name: (name <= last, name)):
                with closing(_opened(redis, name, there[name], peeking)) as queue:
                    events += _looked_at(context, queue, checks[name])
                last = name
                if time.monotonic() > until:
                    break
        return dg.SensorResult(asset_events=events, skip_reason=_changes(checks, matching(there, chosen)), cursor=last)

    return observer


def _opened(redis: Any, name: str, discipline: str, config: LeasedConfig) -> WorkQueue:
    return open_queue(redis, name, discipline, config if discipline == LeasedQueue.discipline else None)


def _looked_at(context: dg.SensorEvaluationContext, queue: WorkQueue, checks: QueueChecks) -> list[Seen]:
    """Return the events of one queue; none if it cannot be read, which must not hide the others."""
    try:
        _, events = look(queue, checks, context.instance)
    except QueueUnavailable:
        raise
    except RedisMessageQueueError as error:
        context.log.warning("Queue %r cannot be read: %s", queue.name, error)
        return []
    seen = events[0]
    return [dg.AssetMaterialization(seen.asset_key, metadata=seen.metadata, tags=getattr(seen, "tags", {})), *events]


def _changes(known: Collection[str], there: Collection[str]) -> str | None:
    """Return which queues were added or removed since the state was refreshed, as a sentence; None if none were."""
    gone, new = sorted(set(known) - set(there)), sorted(set(there) - set(known))
    found = [f"{_some(gone)} gone from the server" if gone else "", f"{_some(new)} new" if new else ""]
    changed = "; ".join(filter(None, found))
    return f"Since the state was refreshed: {changed}. Run `dg utils refresh-defs-state`." if changed else None


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more are" if len(names) > 3 else " are" if len(names) > 1 else " is"
    return f"{', '.join(map(repr, names[:3]))}{more}"
