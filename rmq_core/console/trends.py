"""What happened lately in each queue of a server, from its history and its newest dead letter, kept for half a minute.

Law: a queue in which nothing waits and nothing failed costs no request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from rmq_core import Message, RedisSettings
from rmq_core.console.attention import Trend, trend_in
from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations.inspecting import dead_letters
from rmq_core.exchange import Exchange
from rmq_core.history import HistoryPoint
from rmq_core.queue.recording import history
from rmq_core.queue.verbs import can
from rmq_core.reports import QueueStats

FRESH_S = 30.0
MINUTES = 60
MOST = 20_000


class Trends:
    """The trends of the queues of one server, by name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, int, Trend]] = {}

    async def of(self, queue: Any, stats: QueueStats) -> Trend:
        """Return the trend of a queue."""
        if (known := self.known(queue.name, stats)) is not None:
            return known
        points = await queue.admin.history(minutes=MINUTES) if can(queue, "history") else []
        return self.keep(queue.name, stats, Recent(points, await queue.admin.dead_letters(1) if stats.dead else []))

    def known(self, name: str, stats: QueueStats) -> Trend | None:
        """Return the trend as it is known; None if it is old, or if there are more dead letters than then."""
        if not stats.ready and not stats.dead:
            return Trend()
        at, dead, trend = self._known.get(name, (float("-inf"), 0, Trend()))
        return trend if self._clock() - at < FRESH_S and stats.dead <= dead else None

    def keep(self, name: str, stats: QueueStats, recent: Recent) -> Trend:
        """Return the trend in what was read, and remember it."""
        found = trend_in(recent.points)
        if recent.letters and recent.letters[0].history:
            newest = recent.letters[0].history[-1].at
            found = found._replace(newest=(datetime.now(UTC) - newest).total_seconds())
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[name] = self._clock(), stats.dead, found
        return found


class Recent(NamedTuple):
    """The last hour of a queue, and its newest dead letter, if it has one."""

    points: Sequence[HistoryPoint]
    letters: Sequence[Message]


def recent(engine: LeasedEngine, *, dead: bool) -> Exchange[Recent]:
    """Return what the trend of a leased queue is made of; `dead`: whether it has dead letters."""
    points = yield from history(engine, minutes=MINUTES)
    return Recent(points, (yield from dead_letters(engine, 1)) if dead else [])


@lru_cache(maxsize=32)
def trends_of(_: RedisSettings) -> Trends:
    """Return the trends of a server, shared by all callers with the same settings."""
    return Trends()
