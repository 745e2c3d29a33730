"""The page's queries and commands to a server, each bounded in time and in size.

Law: the cost of an answer never depends on the size of a queue. Lists are read in pages, the server counts messages,
and the console gives up on a silent server after a few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import zip_longest
from typing import Any, NamedTuple

from rmq_core import LeasedConfig, QueueUnavailable, RedisMessageQueueError, RedisSettings, Unsupported
from rmq_core.asyncio import discipline_of, disciplines, open_queue
from rmq_core.connection.clients import is_cluster
from rmq_core.console.attention import NOTHING, Trend, attention, signs
from rmq_core.console.host import Host
from rmq_core.console.shown import expired, lease_shown, message_shown, settled_shown, stats_shown, verb_shown
from rmq_core.console.survey import Order, Survey, ordered, totals
from rmq_core.console.trends import Recent, Trends, recent
from rmq_core.discipline.leased.aio_survey import of_each
from rmq_core.discipline.leased.operations.inspecting import Overview, overview
from rmq_core.errors import translate
from rmq_core.protocol import DEFAULT, AsyncWorkQueue
from rmq_core.queue.verbs import can, lacks, offered

LOOK_S = 5.0
CHANGE_S = 30.0
QUEUES_A_PAGE = 50
LEASES_LISTED = 1000
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
        rows = [{**row, "attention": attention(row) < NOTHING} for row in page]
        size = {"total": len(names), "registered": len(found), "counted": len(counted), "page": QUEUES_A_PAGE}
        return {**size, **totals(survey.rows(names)), "age": survey.age(names), "queues": rows}

    async def queue(self, name: str, offset: int, count: int, lease_id: str | None = None) -> dict[str, Any]:
        """Return the numbers of a queue and a page of its leases; those that expire first come first.

        lease_id: list only this lease. If it was acked, `acked` has the record of that.
        """
        async with self.opened(name) as (queue, discipline):
            shown = stats_shown(name, discipline, await queue.stats())
            if lease_id is None:
                most = min(offset + count, LEASES_LISTED)
                leases = (await queue.admin.leases(most) if can(queue, "leases") else [])[offset : offset + count]
            else:
                leases, shown["acked"] = await self._one_lease(queue, lease_id)
        shown |= {"verbs": [verb_shown(each) for each in offered()], "lacks": lacks(queue)}
        return {**shown, "listed": [lease_shown(lease, self._holder_of) for lease in leases]}

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

    async def _rows(self, disciplines: Mapping[str, str], trends: Trends) -> list[dict[str, Any]]:
        """Return the rows of queues. Leased queues share a few writes, unless they are on the nodes of a cluster."""
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
        seen = await of_each(self._client, configs, overview)
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
                late = bool(stats.leases) and can(queue, "leases") and expired(await queue.admin.leases(1))
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
