"""What happened lately in each queue of a server, from its history and its newest dead letter, kept for half a minute.

Law: a queue in which nothing waits and nothing failed costs no request.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from rmq_core import QueueStats, RedisSettings
from rmq_core.console.attention import Trend, trend_in
from rmq_core.console.capabilities import past_of

FRESH_S = 30.0
MOST = 20_000


class Trends:
    """The trends of the queues of one server, by name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, int, Trend]] = {}

    async def of(self, queue: Any, stats: QueueStats) -> Trend:
        """Return the trend of a queue; it is read again if it is old, or if there are more dead letters than then."""
        if not stats.ready and not stats.dead:
            return Trend()
        at, dead, trend = self._known.get(queue.name, (float("-inf"), 0, Trend()))
        if self._clock() - at < FRESH_S and stats.dead <= dead:
            return trend
        found = await _read(queue, stats)
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[queue.name] = self._clock(), stats.dead, found
        return found


async def _read(queue: Any, stats: QueueStats) -> Trend:
    points = await queue.history(minutes=60) if past_of(queue)["history"] else []
    trend = trend_in(points)
    if not stats.dead:
        return trend
    letters = await queue.dead_letters(1)
    if not letters or not letters[0].history:
        return trend
    return trend._replace(newest=(datetime.now(UTC) - letters[0].history[-1].at).total_seconds())


@lru_cache(maxsize=32)
def trends_of(_: RedisSettings) -> Trends:
    """Return the trends of a server, shared by all callers with the same settings."""
    return Trends()
