"""`redis_queue_publication_sensor`: requests a run when all messages of a publication are done.

A run key names the publication and the time of its end, so Dagster starts one run for each end, also if the sensor's
cursor is lost. The cursor only keeps ticks from requesting again what ended long ago.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from rmq_core import LeasedConfig, LeasedQueue
from rmq_core.reports import Publication
from rmq_dagster.names import dagster_name
from rmq_dagster.resources import resource_in
from rmq_dagster.runs.identity import PUBLICATION, QUEUE
from rmq_dagster.sensors.building import with_interval

LOOKED_AT = 10_000
_AGAIN_MS = 60_000  # after a fail-over, the clock may be behind that of the server before


def redis_queue_publication_sensor(
    queue: str,
    *,
    target: Any,
    prefix: str = "",
    partition: Callable[[str], str | None] | None = None,
    config: LeasedConfig | None = None,
    resource_key: str = "redis_queue",
    **sensor_options: Any,
) -> dg.SensorDefinition:
    """Return a sensor that requests a run of `target` for each publication of `queue` that has ended.

    A publication ends again, and a run is requested again, when messages are added to it later, or redriven. The first
    tick also requests runs for those that ended within the last week. The run has the tag `rmq/publication`.

    prefix: only publications whose names begin with it. partition: returns the partition of `target` for the name of a
    publication, such as the day of "uploads 2026-11-27"; None for one that needs no run. `sensor_options` go to
    `dagster.sensor`: name, minimum_interval_seconds (10), default_status, ...
    """
    name = sensor_options.pop("name", None) or f"{dagster_name(queue)}_publications"

    @dg.sensor(name=name, target=target, required_resource_keys={resource_key}, **with_interval(sensor_options))
    def ended(context: dg.SensorEvaluationContext, **_: object) -> dg.SensorResult:
        resource = resource_in(context, resource_key)
        with resource.ticking(config) as (redis, peeking), LeasedQueue(redis, queue, peeking) as opened:
            found = [each for each in opened.admin.publications(LOOKED_AT) if each.name.startswith(prefix)]
        since = int(context.cursor or 0)
        ends = {each.name: round(each.ended.timestamp() * 1000) for each in reversed(found) if each.ended}
        recent = {name: ms for name, ms in ends.items() if ms > since - _AGAIN_MS}
        keys = {name: None if partition is None else partition(name) for name in recent}
        wanted = [name for name in recent if partition is None or keys[name] is not None]
        return dg.SensorResult(
            run_requests=[_request(queue, name, recent[name], keys[name]) for name in wanted],
            skip_reason=None if wanted else _unfinished(queue, [each for each in found if not each.done]),
            cursor=str(max([since, *recent.values()])),
        )

    return ended


def _request(queue: str, name: str, ended_ms: int, key: str | None) -> dg.RunRequest:
    return dg.RunRequest(f"{queue}:{name}:{ended_ms}", tags={QUEUE: queue, PUBLICATION: name}, partition_key=key)


def _unfinished(queue: str, left: Sequence[Publication]) -> str:
    if not left:
        return f"Queue {queue!r} has no publication that has not ended."
    first = left[0]
    return (
        f"{len(left)} publication(s) of queue {queue!r} have not ended, such as {first.name!r}: of its"
        f" {first.messages} messages, {first.waiting} wait and {first.leased} are leased."
    )
