"""Reads the queues of the server: all of them for a scrape, one for an autoscaler.

Law: the numbers are right even if no client consumes. A reading makes due messages ready and reclaims expired leases
before it counts, by the settings that are stored with the queue. Leased queues share a few writes on one connection;
queues of other disciplines are read a few at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rmq_console.host import default_config
from rmq_core.admin.verbs import can
from rmq_core.asyncio import discipline_of, disciplines, open_queue
from rmq_core.connection.settings import RedisSettings
from rmq_core.errors import ConfigurationError, QueueUnavailable, translate
from rmq_core.kernel.keys import check_name
from rmq_core.leased.aio import QueueCounts, read_all
from rmq_core.protocol import DEFAULT, DISCIPLINES, Capabilities
from rmq_core.reports import QueueStats

ANSWER_S = 4.0
"""How long an answer about one queue may take, or the list of all. Reading all has no limit: it may be slow."""
PONG_S = 2.0
AT_ONCE = 8
LATE_LISTED = 100


class QueueReading(NamedTuple):
    """What a queue holds.

    stats: None when the queue cannot be read; `error` then says why. expired: how many expired leases the reading found
    and reclaimed, None for a discipline that has no list of leases. totals: what the clients of the queue have counted,
    None for a discipline that does not count.
    """

    name: str
    discipline: str
    stats: QueueStats | None = None
    expired: int | None = None
    totals: Any = None
    error: str = ""

    @property
    def capabilities(self) -> Capabilities:
        """The features of the queue's discipline."""
        found: Capabilities = DISCIPLINES[self.discipline].load(blocking=False).capabilities
        return found

    @property
    def can_pause(self) -> bool:
        """Whether the discipline can pause its queues."""
        return can(DISCIPLINES[self.discipline].load(), "pause")


class QueueReader:
    """Reads the queues of one server over a client that lives as long as the process."""

    def __init__(self, redis: RedisSettings) -> None:
        self._redis = redis
        self._made: Any = None
        self._few = asyncio.Semaphore(AT_ONCE)

    async def all(self) -> list[QueueReading]:
        """Return a reading of every queue. Raises QueueUnavailable."""
        return await self._read(await self._in_time(disciplines(self._client)))

    async def one(self, name: str) -> QueueReading:
        """Return a reading of a queue. Raises LookupError when there is none, and QueueUnavailable."""
        discipline = await self._in_time(discipline_of(self._client, name))
        if discipline is None:
            raise LookupError(f"there is no queue {name!r} on this server; publishing creates a queue")
        readings: list[QueueReading] = await self._in_time(self._read({name: discipline}))
        return readings[0]

    async def ping(self) -> None:
        """Return when Redis has answered. Raises QueueUnavailable."""
        await self._in_time(self._pong(), PONG_S)

    async def close(self) -> None:
        """Close the connections."""
        if self._made is not None:
            with suppress(Exception):  # the process ends; there is no caller left
                await self._made.aclose()

    @property
    def _client(self) -> Any:
        if self._made is None:
            self._made = self._redis.async_client()
        return self._made

    async def _pong(self) -> None:
        try:
            await self._client.ping()
        except Exception as error:
            raise QueueUnavailable(f"Redis did not answer: {error}") from error

    async def _in_time(self, answer: Any, limit_s: float = ANSWER_S) -> Any:
        try:
            async with asyncio.timeout(limit_s):
                return await answer
        except TimeoutError:
            raise QueueUnavailable(f"Redis did not answer within {limit_s:.0f} s") from None

    async def _read(self, queues: Mapping[str, str]) -> list[QueueReading]:
        wrong = {name: why for name in queues if (why := _wrong(name))}
        queues = {name: kind for name, kind in queues.items() if name not in wrong}
        leased = {name: default_config(name, DEFAULT) for name, kind in queues.items() if kind == DEFAULT}
        found = await read_all(self._client, leased) if leased else {}
        readings = [self._leased(name, found[name]) for name in leased]
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(self._other(name, kind)) for name, kind in queues.items() if kind != DEFAULT]
            counted = [group.create_task(self._counted(reading)) for reading in readings]
        readings = [task.result() for task in (*counted, *others)]
        readings += [QueueReading(name, DEFAULT, error=why) for name, why in wrong.items()]
        return sorted(readings, key=lambda reading: reading.name)

    def _leased(self, name: str, found: QueueCounts | Exception) -> QueueReading:
        if isinstance(found, Exception):
            return QueueReading(name, DEFAULT, error=_text(found))
        return QueueReading(name, DEFAULT, found.stats, found.expired)

    async def _other(self, name: str, discipline: str) -> QueueReading:
        async with self._few:
            try:
                async with self._opened(name, discipline) as queue:
                    expired = await _expired(queue)
                    await queue.backlog()
                    return QueueReading(name, discipline, await queue.stats(), expired, await _totals(queue))
            except QueueUnavailable:
                raise
            except Exception as error:  # one damaged queue must not hide the others
                return QueueReading(name, discipline, error=_text(error))

    def _opened(self, name: str, discipline: str) -> Any:
        return open_queue(self._client, name, discipline, default_config(name, discipline))

    async def _counted(self, reading: QueueReading) -> QueueReading:
        """Return the reading with the totals of the queue."""
        if reading.stats is None:
            return reading
        async with self._few, self._opened(reading.name, DEFAULT) as queue:
            return reading._replace(totals=await _totals(queue))


def _wrong(name: str) -> str:
    """Return why no queue can have the name; another program may have written it to the registry."""
    try:
        check_name("name", name)
    except ConfigurationError as error:
        return str(error)
    return ""


async def _totals(queue: Any) -> Any:
    """Return what the queue counted since it exists; None for a discipline that does not count."""
    return await queue.admin.totals() if can(queue, "totals") else None


async def _expired(queue: Any) -> int | None:
    """Return how many leases have expired, by the clock of this machine; at most 100 are counted."""
    if not can(queue, "leases"):
        return None
    now = datetime.now(UTC)
    leases = await queue.admin.leases(LATE_LISTED)
    return len([lease for lease in leases if lease.deadline is not None and lease.deadline <= now])


def _text(error: Exception) -> str:
    return str(translate(error)) if type(error).__module__.startswith("redis.") else str(error)
