"""What the shards of a queue hold, as one queue; and the messages of leases in parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from rmq_core.envelope.codec import Message, arrow_columns, message_of
from rmq_core.errors import LeaseLost
from rmq_core.exchange import Command, Exchange
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.settings import fresh
from rmq_core.leased import inspecting
from rmq_core.leased.claiming import ungrouped
from rmq_core.leased.reading import Part, any_parts, held_parts
from rmq_core.leased.shards.claiming import looked, polled
from rmq_core.leased.shards.state import DECIDED, FIRST, PART, Sharded, part_id, sharded, slot_of
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease
from rmq_core.policy import whole
from rmq_core.reports import Backlog, LeaseInfo, MessagePage, QueueStats, ShardStats, total_stats

R = TypeVar("R")


def read(engine: LeasedEngine, lease: Lease, lo: int = 0, hi: int | None = None) -> Exchange[list[Message]]:
    """Return the unsettled messages `lo` to `hi` (exclusive) of a lease. Raises LeaseLost."""

    def decoded(part: Part) -> list[Message]:
        return [
            message_of(envelope, index, lease.id, part.takeovers + 1)
            for index, envelope in zip(part.indexes, part.envelopes, strict=True)
        ]

    return list(chain.from_iterable((yield from _read(engine, lease, lo, hi, decoded))))


def read_arrow(engine: LeasedEngine, lease: Lease, lo: int = 0, hi: int | None = None) -> Exchange[Any]:
    """Return the unsettled messages `lo` to `hi` (exclusive) as a pyarrow.Table, as `leased.inspecting.read_arrow`."""
    arrow = arrow_columns()

    def batch_of(part: Part) -> Any:
        return arrow.batch_of(part.envelopes, part.indexes, part.takeovers + 1, lease.id, engine.name)

    return arrow.table_of((yield from _read(engine, lease, lo, hi, batch_of)))


def _read(engine: LeasedEngine, lease: Lease, lo: int, hi: int | None, take: Callable[[Part], R]) -> Exchange[list[R]]:
    shards, found = sharded(engine), list[R]()
    last = lease.count if hi is None else min(whole("hi", hi), lease.count)
    for name, part, first in parts_of(engine, lease):
        begin, end = max(whole("lo", lo) - first, 0), min(last - first, part.count)
        if begin < end:
            exchange = held_parts(shards.engines[name], part, begin, end, partial(_shifted, first, take))
            try:
                found += yield from shards.at(name, exchange)
            except LeaseLost:  # of the part, whose id means nothing to the caller
                raise engine.lost(lease) from None
    return found


def _shifted(first: int, take: Callable[[Part], R], part: Part) -> R:
    return take(part._replace(indexes=[first + index for index in part.indexes]) if first else part)


def parts_of(engine: LeasedEngine, lease: Lease) -> Iterator[tuple[str, Lease, int]]:
    """Yield the shard and the lease of each part, and the place of its first message."""
    first = 0
    for name, part in lease.parts or ((sharded(engine).of_lease(lease.id), lease),):
        yield name, part, first
        first += part.count


def browse_lease(engine: LeasedEngine, lease_id: str, lo: int = 0, hi: int = 25) -> Exchange[list[Message]]:
    """Return the unsettled messages `lo` to `hi` (exclusive) of any lease, without its token; [] without a lease."""
    shards, first, found = sharded(engine), 0, list[Message]()
    for name, one in shards.engines.items():
        for each in (check_name("lease_id", lease_id), part_id(lease_id)):
            info = yield from shards.at(name, inspecting.lease_info(one, each))
            if info is None:
                continue
            begin, end = max(whole("lo", lo) - first, 0), min(whole("hi", hi) - first, info.count)
            if begin < end:
                parts = yield from shards.at(
                    name, any_parts(one, each, begin, end, partial(_shifted, first, lambda got: got))
                )
                for part in parts:
                    found += [
                        message_of(envelope, index, lease_id, part.takeovers + 1)
                        for index, envelope in zip(part.indexes, part.envelopes, strict=True)
                    ]
            first += info.count
    return found


def backlog(engine: LeasedEngine, *, groups: Collection[str] | None = None) -> Exchange[Backlog]:
    """Return how much work is ready in the shards that answer, and how old it is."""
    if groups is not None:
        raise ungrouped(engine)
    return _together((yield from looked(sharded(engine))).values())


def poll(engine: LeasedEngine, notify_ms: int, groups: str | None = None) -> Exchange[tuple[Backlog, float | None]]:
    """Return the backlog of all shards that answer, and the seconds until the next due time of any; read the map first.

    notify_ms: request a notification of each shard for so long.
    """
    if groups is not None:
        raise ungrouped(engine)
    yield from fresh(engine)
    seen = yield from polled(sharded(engine), notify_ms)
    due = [at for _, at in seen.values() if at is not None]
    return _together(each for each, _ in seen.values()), min(due, default=None)


def shard_stats(shards: Sharded) -> Exchange[list[ShardStats]]:
    """Return what each shard holds, or why it does not answer."""
    found = yield from shards.across(shards.engines, lambda _, one: _shard_stats(one), hurry=True)
    listed = []
    for name in shards.engines:
        got, of = found[name], (name, slot_of(shards.base.name, name), name in shards.map.draining)
        listed.append(
            ShardStats(*of, 0, None, str(got)) if isinstance(got, Exception) else ShardStats(*of, got[0], got[1])
        )
    return listed


def _shard_stats(engine: LeasedEngine) -> Exchange[tuple[int, QueueStats]]:
    epoch = yield Command(("GET", engine.keys.epoch))
    return int(epoch or 0), (yield from inspecting.stats(engine))


def _together(backlogs: Iterable[Backlog]) -> Backlog:
    found = list(backlogs)
    fences = [each.fence for each in found if each.fence is not None]
    return Backlog(
        sum(each.ready for each in found),
        _oldest(each.oldest_age for each in found),
        tuple(chain.from_iterable(each.groups for each in found)),
        any(each.paused for each in found),
        sum(fences) if fences else None,
    )


def _oldest(ages: Iterator[float | None]) -> float | None:
    return max((age for age in ages if age is not None), default=None)


def stats(engine: LeasedEngine) -> Exchange[QueueStats]:
    """Return what the queue holds. Of more than 1,000 leases and parts in a shard, only 1,000 count as leased."""
    return total_stats((yield from sharded(engine).all(lambda _, one: inspecting.stats(one))).values())


def leases(engine: LeasedEngine, limit: int = 100) -> Exchange[list[LeaseInfo]]:
    """Return the leases that expire first, at most `limit` of them."""
    most = whole("limit", limit, minimum=1)
    found = yield from sharded(engine).all(lambda _, one: inspecting.leases(one, most))
    whole_leases: dict[str, LeaseInfo] = {}
    parts: list[LeaseInfo] = []
    for each in chain.from_iterable(found.values()):
        if each.id.startswith(PART):
            parts.append(each)
        elif not each.id.startswith(DECIDED):
            whole_leases[each.id] = each
    for part in parts:
        home = whole_leases.get(part.id.removeprefix(PART))
        if home is not None:
            whole_leases[home.id] = _with(home, part)
    return sorted(whole_leases.values(), key=lambda each: (each.deadline is None, each.deadline))[:most]


def held_by(engine: LeasedEngine, owner: str) -> Exchange[list[str]]:
    """Return the ids of all leases of an owner; a lease with parts in several shards has one."""
    found = yield from sharded(engine).all(lambda _, one: inspecting.held_by(one, owner))
    return [each for each in chain.from_iterable(found.values()) if not each.startswith((PART, DECIDED))]


def _with(home: LeaseInfo, part: LeaseInfo) -> LeaseInfo:
    return replace(
        home, count=home.count + part.count, settled=home.settled + part.settled,
        isolation=home.isolation or part.isolation,
    )  # fmt: skip


def lease_info(engine: LeasedEngine, lease_id: str) -> Exchange[LeaseInfo | None]:
    """Return a lease without its token; None when no lease has this id."""
    shards, name = sharded(engine), sharded(engine).of_lease(check_name("lease_id", lease_id))
    home = yield from shards.at(name, inspecting.lease_info(shards.engines[name], lease_id))
    if home is None or name != FIRST:
        return home
    found = yield from shards.all(lambda _, one: inspecting.lease_info(one, part_id(lease_id)))
    for part in found.values():
        home = _with(home, part) if part is not None else home
    return home


def peek(engine: LeasedEngine, count: int = 1) -> Exchange[list[Message]]:
    """Return messages that are claimed next, at most `count`: the oldest first."""
    found = yield from sharded(engine).all(lambda _, one: inspecting.peek(one, count))
    return sorted(chain.from_iterable(found.values()), key=lambda each: each.enqueued_at)[:count]


def dead_letters(engine: LeasedEngine, count: int = 10) -> Exchange[list[Message]]:
    """Return the newest dead letters with their history, at most `count` of them."""
    found = yield from sharded(engine).all(lambda _, one: inspecting.dead_letters(one, count))
    newest = sorted(chain.from_iterable(found.values()), key=_died, reverse=True)
    return newest[:count]


def _died(message: Message) -> Any:
    return message.history[-1].at if message.history else message.enqueued_at


def browse(engine: LeasedEngine, target: str, offset: int = 0, count: int = 25) -> Exchange[MessagePage]:
    """Return at most `count` messages after the first `offset`, those of one shard after those of another."""
    shards, total, messages, due = sharded(engine), 0, list[Message](), list[Any]()
    for name, one in shards.engines.items():
        begin, left = max(0, whole("offset", offset) - total), count - len(messages)
        page = yield from shards.at(name, inspecting.browse(one, target, begin, max(1, left)))
        if left > 0:
            messages += page.messages
            due += page.due
        total += page.total
    return MessagePage(total, messages, due)
