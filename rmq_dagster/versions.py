"""The data version of a queue's asset: it changes when there is new work, so that automation conditions start runs.

`AutomationCondition.eager()` of an asset downstream fires whenever the version of its upstream asset changed. So while
something is ready, the version tells which work that is; an empty or paused queue keeps the version that it had. Before
its first message a queue has no version.

Dagster forgets a change that it sees together with the end of a run, and a run may end before it claims. So the same
work gets another version after a minute; while a run is queued or works, `eager()` requests no other one.
"""

from __future__ import annotations

import time

import dagster as dg

from rmq_core import LeasedQueue, MalformedMessage
from rmq_core.reports import QueueStats
from rmq_dagster.tags import DATA_VERSION

SAME_WORK_S = 60


def data_version(queue: LeasedQueue, stats: QueueStats, instance: dg.DagsterInstance, key: dg.AssetKey) -> str | None:
    """Return the version of the queue's present content; that of its last observation if nothing can be claimed."""
    before, now_ms = last_version(instance, key), int(time.time() * 1000)
    work = None if stats.paused else _work(queue)
    if work is None:
        return before
    last_work, _, since = (before or "").rpartition("@")
    still = last_work == work and since.isdecimal() and now_ms - int(since) < SAME_WORK_S * 1000
    return before if still else f"{work}@{now_ms}"


def last_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> str | None:
    """Return the version in the last observation of an asset; None without an observation or a version."""
    observation = last_observation(instance, key)
    return observation.tags.get(DATA_VERSION) if observation else None


def last_observation(instance: dg.DagsterInstance, key: dg.AssetKey) -> dg.AssetObservation | None:
    """Return the last observation of an asset."""
    seen = next(iter(instance.fetch_observations(key, limit=1).records), None)
    return seen.asset_observation if seen else None


def _work(queue: LeasedQueue) -> str | None:
    """Return a text that differs as soon as messages came, were settled or came back; None if nothing is ready."""
    next_one = _next_one(queue)
    if next_one is None:
        return None
    # Clients report their counts about once a second, or never. The next message tells the rest: a queue that was
    # drained and published to has another one, and a message that came back has one more delivery.
    totals = queue.admin.totals()
    came = totals.published + totals.redriven
    left = totals.acked + totals.nacked + totals.released + totals.reclaimed
    return f"{came}:{left}:{next_one}"


def _next_one(queue: LeasedQueue) -> str | None:
    """Return what identifies the next delivery of a message; None if nothing is ready."""
    try:
        return next((f"{message.id}:{message.deliveries}" for message in queue.admin.peek(1)), None)
    except MalformedMessage:
        return "malformed"
