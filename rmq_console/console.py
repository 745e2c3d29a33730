"""The page's queries to a server: single queues, the numbers of all, and what happened lately.

Law: the cost of an answer never depends on the size of a queue. Lists are read in pages, the server counts messages,
and the console gives up on a silent server after a few seconds.

A request counts queues for a bounded time, however many queues a server has, and keeps their numbers: totals and order
cover all queues. It counts queues that were never counted first, then those counted longest ago. The answer includes
the age of the oldest number and the number of queues not counted yet. What happened lately comes from the history and
the newest dead letter of a queue, kept for half a minute; a queue that holds no ready, leased or dead message costs no
request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, TypeAlias

from rmq_console.host import Host
from rmq_console.shown import (
    client_shown,
    group_shown,
    lease_shown,
    message_shown,
    publication_shown,
    settled_shown,
    shards_shown,
    signs_shown,
    stats_shown,
    verb_shown,
)
from rmq_core import LeasedConfig, Message, QueueUnavailable, RedisMessageQueueError, RedisSettings, Unsupported
from rmq_core.admin.configuring import clients
from rmq_core.admin.history import history
from rmq_core.admin.verbs import can, lacks, offered
from rmq_core.asyncio import discipline_of, disciplines, open_queue
from rmq_core.connection.clients import is_cluster
from rmq_core.errors import WrongKeyType, translate
from rmq_core.exchange import Exchange
from rmq_core.leased.aio import of_each
from rmq_core.leased.inspecting import Overview, dead_letters, overview
from rmq_core.leased.state import LeasedEngine
from rmq_core.observe.history import HistoryPoint, pause_reason
from rmq_core.orchestrate.attention import (
    MINUTES,
    Trend,
    async_suspects,
    expired,
    needs_attention,
    signs,
    trend_in,
    urgency,
)
from rmq_core.protocol import DEFAULT, AsyncWorkQueue
from rmq_core.reports import Client, QueueStats, ShardStats, programs, total_stats

FIRST_S, AGAIN_S = 2.0, 0.25
"""How long a request counts queues that were never counted, and how long it counts the others again."""
FRESH_S = 2.0
"""Totals use numbers younger than this without a new count, so that several open pages cost little more than one."""
FORGOTTEN_S = 300.0
"""A number older than this is discarded, and its queue is reported as not counted."""
COUNTS_AT_ONCE, CHUNK = 2, 50
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
                for _ in range(COUNTS_AT_ONCE):
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

    Queues that cannot be read come last, except in the order by attention, where they come first.
    """
    named = sorted(rows, key=_name, reverse=by == "name" and down)
    if by == "name":
        return named
    if by == "attention":
        return sorted(named, key=urgency)
    turn = -1 if down else 1
    return sorted(named, key=lambda row: ("error" in row, turn * _number(row, by)))


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the sums over the rows, the number of queues that hold each kind, and the number that need attention."""
    return {
        "sums": {kind: sum(row.get(kind, 0) for row in rows) for kind in SUMMED},
        "holding": {kind: sum(1 for row in rows if row.get(kind)) for kind in SUMMED},
        "attention": sum(map(needs_attention, rows)),
    }


def _name(row: Row) -> str:
    return str(row["name"])


def _age(row: Row) -> float:
    return float(row.get("oldest_age") or 0)


def _number(row: Row, by: Order) -> float:
    return _age(row) if by == "oldest" else float(row.get(by, 0))


TREND_FRESH_S = 30.0
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
        letters = await queue.admin.dead_letters(1) if stats.dead else []
        programs = await queue.admin.clients() if can(queue, "clients") else []
        return self.keep(queue.name, stats, Recent(points, letters, programs))

    def known(self, name: str, stats: QueueStats) -> Trend | None:
        """Return the trend as it is known; None if it is old, or if there are more dead letters than then."""
        if not stats.ready and not stats.dead and not stats.leased:
            return Trend()
        at, dead, trend = self._known.get(name, (float("-inf"), 0, Trend()))
        return trend if self._clock() - at < TREND_FRESH_S and stats.dead <= dead else None

    def keep(self, name: str, stats: QueueStats, recent: Recent) -> Trend:
        """Compute the trend of the numbers that were read, cache it, and return it."""
        found = trend_in(recent.points, datetime.now(UTC), recent.letters, recent.clients)
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[name] = self._clock(), stats.dead, found
        return found


class Recent(NamedTuple):
    """The last hour of a queue, its newest dead letter, if it has one, and who uses it."""

    points: Sequence[HistoryPoint]
    letters: Sequence[Message]
    clients: Sequence[Client]


def recent(engine: LeasedEngine, *, dead: bool) -> Exchange[Recent]:
    """Return what the trend of a leased queue is made of; `dead`: whether it has dead letters."""
    points = yield from history(engine, minutes=MINUTES)
    return Recent(points, (yield from dead_letters(engine, 1)) if dead else [], (yield from clients(engine)))


@lru_cache(maxsize=32)
def trends_of(_: RedisSettings) -> Trends:
    """Return the trends of a server, shared by all callers with the same settings."""
    return Trends()


LOOK_S = 5.0
CHANGE_S = 30.0
QUEUES_A_PAGE = 50
LEASES_LISTED = 1000
CLIENTS_LISTED = 100
AT_ONCE = 16


class Known(NamedTuple):
    """What the console remembers of a server between requests."""

    survey: Survey
    trends: Trends


class Console:
    """The queues of one server, over one client."""

    def __init__(self, client: Any, host: Host) -> None:
        self._client, self._holder_of, self._config_of = client, host.holder, host.config
        self._limits, self._few = host.limits, asyncio.Semaphore(AT_ONCE)

    async def overview(self, known: Known, search: str, offset: int, by: Order, *, down: bool) -> dict[str, Any]:
        """Return a page of the queues whose names contain `search`, each with its numbers or with its error.

        Order and totals cover all of these queues and use the last known numbers; the queues on the page are counted
        now.
        """
        survey = known.survey
        found, since = await disciplines(self._client), survey.now()

        async def read_rows(names: Sequence[str]) -> list[dict[str, Any]]:
            return await self._rows({name: found[name] for name in names}, known.trends)

        await survey.renew(sorted(found), read_rows)
        names = [name for name in found if search.casefold() in name.casefold()]
        counted = ordered(survey.rows(names), by, down=down)
        shown = [row["name"] for row in counted[offset : offset + QUEUES_A_PAGE]]
        page = ordered(await survey.refresh(shown, read_rows, since), by, down=down)
        rows = [{**row, "signs": signs_shown(row["signs"]), "attention": needs_attention(row)} for row in page]
        size = {"total": len(names), "registered": len(found), "counted": len(counted), "page": QUEUES_A_PAGE}
        return {**size, **totals(survey.rows(names)), "age": survey.age(names), "queues": rows}

    async def queue(
        self, trends: Trends, name: str, offset: int, count: int, lease_id: str | None = None
    ) -> dict[str, Any]:
        """Return the numbers of a queue, why it needs attention, and a page of its leases, those that expire first.

        In a crash loop, `suspects` has the messages that may be the cause.
        lease_id: list only this lease. If it was acked, `acked` has the record of that.
        """
        async with self.opened(name) as (queue, discipline):
            settings, shards = await self._laid_out(queue)
            stats = total_stats(each.stats for each in shards) if shards else await queue.stats()
            shown = {**stats_shown(name, discipline, stats), **settings}
            if shards:
                shown["shards"] = shards_shown(shards)
            if stats.paused:
                with suppress(WrongKeyType):
                    shown["pause"] = pause_reason(await queue.admin.marks())
            if can(queue, "clients"):
                known = programs(await queue.admin.clients())
                shown["clients"] = [client_shown(*each) for each in known[:CLIENTS_LISTED]]
            if not any(each.error for each in shards):  # else what happened there is not known
                row, trend = {**shown, "late": await _late(queue, stats)}, await trends.of(queue, stats)
                shown["signs"] = signs_shown(signs(row, trend, self._limits))
                if trend.crashing:
                    shown["suspects"] = [each._asdict() for each in await async_suspects(queue)]
            if any(each.error for each in shards):
                leases: list[Any] = []  # which of them have messages there is not known
            elif lease_id is None:
                most = min(offset + count, LEASES_LISTED)
                leases = (await queue.admin.leases(most) if can(queue, "leases") else [])[offset : offset + count]
            else:
                leases, shown["acked"] = await self._one_lease(queue, lease_id)
        shown |= {"verbs": [verb_shown(each) for each in offered()], "lacks": lacks(queue)}
        return {**shown, "listed": [lease_shown(lease, self._holder_of) for lease in leases]}

    async def _laid_out(self, queue: Any) -> tuple[dict[str, Any], list[ShardStats]]:
        """Return the settings, if they are not damaged, and the shards of a queue that has some."""
        if not can(queue, "settings"):
            return {}, []
        with suppress(WrongKeyType):
            found = await queue.admin.settings()
            shards = await queue.admin.shards() if found.in_force.get("shards") else []
            plain = found.plain
            return {"settings": {name: plain[name] for name in ("settings", "stored", "in_force")}}, shards
        return {}, []

    async def _one_lease(self, queue: Any, lease_id: str) -> tuple[list[Any], dict[str, Any] | None]:
        """Return a list with the lease if it exists, and the record of its ack if there is one."""
        if not can(queue, "leases"):
            return [], None
        lease = await queue.lease_info(lease_id)
        record = None if lease else await queue.settled(lease_id)
        return [lease] if lease else [], record and settled_shown(record, self._holder_of)

    async def messages(self, name: str, target: str, offset: int, count: int) -> dict[str, Any]:
        """Return a page of the messages of one kind that no lease holds."""
        async with self.opened(name) as (queue, discipline):
            if can(queue, "browse"):
                total, found, due = await queue.admin.browse(target, offset, count)
            else:
                total, found, due = await _peeked(queue, discipline, target, offset, count)
        shown = [message_shown(message, self._holder_of, at) for message, at in zip_longest(found, due)]
        return {"total": total, "offset": offset, "messages": shown}

    async def groups(self, name: str, count: int) -> dict[str, Any]:
        """Return the groups of a queue in which the most messages wait, and its publications."""
        async with self.opened(name) as (queue, _):
            groups, publications = await queue.admin.groups(count), await queue.admin.publications(count)
        return {
            "groups": [group_shown(each) for each in groups],
            "publications": [publication_shown(each) for each in publications],
        }

    async def _rows(self, disciplines: Mapping[str, str], trends: Trends) -> list[dict[str, Any]]:
        """Return the rows of queues. Leased queues share a few writes, unless they are on the nodes of a cluster."""
        # Those in shards are left out there, and counted one by one.
        leased = [name for name, kind in disciplines.items() if kind == DEFAULT and not is_cluster(self._client)]
        rows = await self._leased_rows(leased, trends)
        async with asyncio.TaskGroup() as group:
            others = {
                name: group.create_task(self._row(name, kind, trends))
                for name, kind in disciplines.items()
                if name not in rows
            }
        rows |= {name: task.result() for name, task in others.items()}
        return [rows[name] for name in disciplines]

    async def _leased_rows(self, names: Sequence[str], trends: Trends) -> dict[str, dict[str, Any]]:
        configs = {name: self._config_of(name, DEFAULT) or LeasedConfig() for name in names}
        seen = {name: one for name, one in (await of_each(self._client, configs, overview)).items() if one is not None}
        counted = {name: each.stats for name, each in seen.items() if not isinstance(each, Exception)}
        asked = {name: configs[name] for name, stats in counted.items() if trends.known(name, stats) is None}
        read = await of_each(self._client, asked, lambda engine: recent(engine, dead=bool(counted[engine.name].dead)))
        return {name: self._leased_row(name, each, read.get(name), trends) for name, each in seen.items()}

    def _leased_row(
        self, name: str, seen: Overview | Exception, read: Recent | Exception | None, trends: Trends
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"name": name, "discipline": DEFAULT}
        trend = Trend()
        for each in (seen, read):
            if isinstance(each, Exception):
                row["error"] = _text(each)
        if isinstance(seen, Overview) and not isinstance(read, Exception):
            row |= {**stats_shown(name, DEFAULT, seen.stats), "late": seen.late}
            trend = trends.keep(name, seen.stats, read) if read else trends.known(name, seen.stats) or Trend()
        return {**row, "signs": signs(row, trend, self._limits)}

    async def _row(self, name: str, discipline: str, trends: Trends) -> dict[str, Any]:
        row: dict[str, Any] = {"name": name, "discipline": discipline}
        trend = Trend()
        try:
            async with self._few, self._open(name, discipline) as queue:
                stats = await queue.stats()
                late = await _late(queue, stats)
                row, trend = {**stats_shown(name, discipline, stats), "late": late}, await trends.of(queue, stats)
        except QueueUnavailable:
            raise
        except RedisMessageQueueError as error:  # one damaged queue must not hide the others
            row["error"] = str(error)
        return {**row, "signs": signs(row, trend, self._limits)}

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[tuple[Any, str]]:
        """Open a queue that exists, for a block. Raises LookupError."""
        discipline = await discipline_of(self._client, name)
        if discipline is None:
            raise LookupError(f"there is no queue {name!r} on this server; publishing creates a queue")
        async with self._open(name, discipline) as queue:
            yield queue, discipline

    def _open(self, name: str, discipline: str) -> Any:
        return open_queue(self._client, name, discipline, self._config_of(name, discipline))


@asynccontextmanager
async def console(settings: RedisSettings, host: Host, limit_s: float = LOOK_S) -> AsyncIterator[Console]:
    """Open a console for a block that may last `limit_s` seconds. Raises QueueUnavailable."""
    client = settings.async_client()
    try:
        async with asyncio.timeout(limit_s):
            yield Console(client, host)
    except TimeoutError:
        raise QueueUnavailable(f"Redis did not answer within {limit_s:.0f} s") from None
    finally:
        with suppress(Exception):  # the work is done; an error while closing must not hide its result
            await client.aclose()


async def _late(queue: Any, stats: QueueStats) -> bool:
    """Return whether a lease of the queue has expired and was not reclaimed yet."""
    return bool(stats.leases) and can(queue, "leases") and expired(await queue.admin.leases(1), datetime.now(UTC))


def _text(error: Exception) -> str:
    """Return the text of the error of one queue. Raises QueueUnavailable, which is one of the whole server."""
    found = translate(error) if type(error).__module__.startswith("redis.") else error
    if isinstance(found, QueueUnavailable):
        raise found
    return str(found)


async def _peeked(
    queue: AsyncWorkQueue, discipline: str, target: str, offset: int, count: int
) -> tuple[int, list[Any], list[Any]]:
    """Return a page, read with the methods that every discipline has.

    These methods always read from the front of the queue, so the pages end at 1,000 messages.
    """
    readers = {"ready": "peek", "dead": "dead_letters"}
    if target not in readers:
        raise Unsupported(discipline, f"list of its {target} messages", ("leased",))
    total = int(getattr(await queue.stats(), target))
    found = await getattr(queue.admin, readers[target])(min(offset + count, 1000)) if total else []
    return min(total, 1000), found[offset:], []
