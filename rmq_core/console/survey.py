"""The numbers of all queues of a server, cached between requests: totals and order cover all queues at a bounded cost.

Law: a request counts queues for a bounded time, however many queues a server has. It counts queues that were never
counted first, then those counted longest ago. The answer includes the age of the oldest number and the number of queues
not counted yet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from rmq_core import RedisSettings
from rmq_core.console.attention import NOTHING, attention

FIRST_S, AGAIN_S = 2.0, 0.25
"""How long a request counts queues that were never counted, and how long it counts the others again."""
FRESH_S = 2.0
"""Totals use numbers younger than this without a new count, so that several open pages cost little more than one."""
FORGOTTEN_S = 300.0
"""A number older than this is discarded, and its queue is reported as not counted."""
AT_ONCE, CHUNK = 2, 50
"""How many requests to Redis are under way at a time, and how many queues each counts."""
SUMMED = ("ready", "leased", "delayed", "dead", "isolated")

Row: TypeAlias = dict[str, Any]
ReadRows: TypeAlias = Callable[[Sequence[str]], Awaitable[list[Row]]]
"""Returns a row for each of these names, in order."""
Order = Literal["attention", "name", "ready", "oldest", "leased", "delayed", "dead"]


class _Counted(NamedTuple):
    at: float
    row: Row


class Survey:
    """The last numbers of each queue of one server, by name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counted: dict[str, _Counted] = {}

    async def renew(self, names: Sequence[str], read_rows: ReadRows) -> None:
        """Count queues again until all numbers are fresh or the time is over; forget queues missing from `names`.

        Raises any exception of `read_rows`.
        """
        now = self._clock()
        kept = {name: self._counted[name] for name in names if name in self._counted}
        self._counted = {name: known for name, known in kept.items() if now - known.at < FORGOTTEN_S}
        new = [name for name in names if name not in self._counted]
        stale = sorted((known.at, name) for name, known in self._counted.items() if now - known.at >= FRESH_S)
        await self._count(new, read_rows, now + FIRST_S)
        await self._count([name for _, name in stale], read_rows, now + AGAIN_S)

    async def refresh(self, names: Iterable[str], read_rows: ReadRows, since: float) -> list[Row]:
        """Return the rows of these queues, counting again those counted before `since`."""
        old = [name for name in names if name not in self._counted or self._counted[name].at < since]
        await self._count(old, read_rows, float("inf"))
        return [self._counted[name].row for name in names]

    def rows(self, names: Iterable[str]) -> list[Row]:
        """Return the last numbers counted for these queues."""
        return [self._counted[name].row for name in names if name in self._counted]

    def age(self, names: Iterable[str]) -> float:
        """Return the age of the oldest of these numbers in seconds; 0 if there is none."""
        now = self._clock()
        return max((now - self._counted[name].at for name in names if name in self._counted), default=0.0)

    def now(self) -> float:
        """Return the time on the clock that ages are measured by."""
        return self._clock()

    async def _count(self, names: Sequence[str], read_rows: ReadRows, until: float) -> None:
        waiting = (names[lo : lo + CHUNK] for lo in range(0, len(names), CHUNK))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(self._work(waiting, read_rows, until))
        except ExceptionGroup as failed:  # the others have the same cause as the first
            raise failed.exceptions[0] from None

    async def _work(self, waiting: Iterator[Sequence[str]], read_rows: ReadRows, until: float) -> None:
        while self._clock() < until and (names := next(waiting, None)) is not None:
            began = self._clock()
            rows = await read_rows(names)
            self._counted.update((name, _Counted(began, row)) for name, row in zip(names, rows, strict=True))


@lru_cache(maxsize=32)
def survey_of(_: RedisSettings) -> Survey:
    """Return the survey of a server, shared by all callers with the same settings."""
    return Survey()


def ordered(rows: Iterable[Row], by: Order, *, down: bool) -> list[Row]:
    """Return rows in the order of a column, equal ones by name.

    Queues that cannot be read come last, except in the order by attention, where they come first. By attention, queues
    of the same rank are ordered by their oldest message, in whole minutes, so that rows do not change places often.
    """
    named = sorted(rows, key=_name, reverse=by == "name" and down)
    if by == "name":
        return named
    if by == "attention":
        return sorted(named, key=lambda row: (attention(row), -_age(row) // 60))
    turn = -1 if down else 1
    return sorted(named, key=lambda row: ("error" in row, turn * _number(row, by)))


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the sums over the rows, the number of queues that hold each kind, and the number that need attention."""
    return {
        "sums": {kind: sum(row.get(kind, 0) for row in rows) for kind in SUMMED},
        "holding": {kind: sum(1 for row in rows if row.get(kind)) for kind in SUMMED},
        "attention": sum(1 for row in rows if attention(row) < NOTHING),
    }


def _name(row: Row) -> str:
    return str(row["name"])


def _age(row: Row) -> float:
    return float(row.get("oldest_age") or 0)


def _number(row: Row, by: Order) -> float:
    return _age(row) if by == "oldest" else float(row.get(by, 0))
