"""Inspects a queue and its contents. Claims nothing, but may make due jobs ready."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from rmq_core.envelope.codec import Message, arrow_columns, message_of
from rmq_core.exchange import Command, Exchange, Pipeline
from rmq_core.exchange.scripts import script
from rmq_core.jobs.job import Job, job_of
from rmq_core.jobs.reclaiming import reclaim_all
from rmq_core.jobs.state import GROUP, JobsEngine
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.settling import leases_of, lost, settled_record
from rmq_core.messages import Lease, token_of
from rmq_core.policy import moment, whole
from rmq_core.reports import Backlog, LeaseInfo, QueueStats, SettledRecord

_LISTED = 1000


class Tick(NamedTuple):
    """The result of `tick`: the time and the next due time in ms, the count of promoted jobs, and the due rules."""

    now_ms: int
    next_ms: int | None
    promoted: int
    rules: list[tuple[str, int]]


def tick(engine: JobsEngine) -> Exchange[Tick]:
    """Make jobs ready whose delay is over, reclaim expired leases, and return which repeatable jobs are due."""
    now, due, promoted, late, rules = yield script("jobs/tick", engine.keys, engine.settings)
    yield from reclaim_all(engine, late)
    return Tick(now, int(due) if due else None, promoted, [(key.decode(), int(float(at))) for key, at in rules])


def read(engine: JobsEngine, lease: Lease, lo: int = 0, hi: int | None = None) -> Exchange[list[Message]]:
    """Return the messages `lo` to `hi` (exclusive) of a lease that are not settled yet. Raises LeaseLost."""
    found: list[Message] = []
    for takeovers, places, envelopes in (yield from _parts(engine, lease, lo, hi)):
        pairs = zip(places, envelopes, strict=True)
        found += [message_of(envelope, place, lease.id, takeovers + 1) for place, envelope in pairs]
    return found


def read_arrow(engine: JobsEngine, lease: Lease, lo: int = 0, hi: int | None = None) -> Exchange[Any]:
    """Return the jobs of `read` as a pyarrow.Table, with the columns of `LeasedQueue.read_arrow`.

    Raises LeaseLost, MalformedMessage, UnknownPayloadKind, and ConfigurationError without the extra `arrow`.
    """
    arrow = arrow_columns()
    parts = yield from _parts(engine, lease, lo, hi)
    return arrow.table_of(
        arrow.batch_of(envelopes, places, takeovers + 1, lease.id, engine.name)
        for takeovers, places, envelopes in parts
    )


def _parts(
    engine: JobsEngine, lease: Lease, lo: int, hi: int | None
) -> Exchange[list[tuple[int, list[int], list[bytes]]]]:
    at, last = whole("lo", lo), (lease.count if hi is None else min(whole("hi", hi), lease.count)) - 1
    found = []
    while at <= last:
        takeovers, at, places, envelopes = yield from _slice(engine, lease, at, last)
        found.append((takeovers, places, envelopes))
    return found


def fetch(engine: JobsEngine, held: Lease) -> Exchange[Lease]:
    """Return the lease with its messages if one reply holds them all, else without."""
    _, at, places, envelopes = yield from _slice(engine, held, 0, held.count - 1)
    complete = at >= held.count and len(places) == held.count
    return replace(held, envelopes=envelopes) if complete else held


def _slice(engine: JobsEngine, lease: Lease, lo: int, last: int) -> Exchange[tuple[int, int, list[int], list[bytes]]]:
    keys, limit = engine.keys, min(last, lo + 3999)
    reply = yield script(
        "jobs/read", keys, lease=keys.lease(lease.id), lease_id=lease.id, token=token_of(lease), first=lo, last=limit
    )
    if reply[0] != b"read":
        raise lost(lease)
    return reply[1], reply[2], reply[3], reply[4]


def backlog(engine: JobsEngine) -> Exchange[Backlog]:
    """Return how many jobs are ready and how old the oldest is. Due jobs and jobs of expired leases count as ready."""
    yield from tick(engine)
    counted = yield from _read_stats(engine, 1)
    return Backlog(counted[0], _age(counted), paused=bool(counted[8]))


def stats(engine: JobsEngine) -> Exchange[QueueStats]:
    """Count the jobs of the queue. `leased`: those of workers and those of the 1,000 leases that expire first."""
    counted = yield from _read_stats(engine, 1, _LISTED)
    infos = yield from _infos(engine, counted[7])
    leased = counted[4] + sum(info.count - info.settled for info in infos)
    claimed = min((info.claimed_at for info in infos), default=None)
    held = None if claimed is None else max(0.0, (moment(counted[5]) - claimed).total_seconds())
    return QueueStats(
        counted[0], counted[1], leased, counted[2], counted[3], _age(counted), paused=bool(counted[8]),
        oldest_lease=held,
    )  # fmt: skip


def peek(engine: JobsEngine, count: int = 1) -> Exchange[list[Message]]:
    """Return the messages that would be claimed next, at most `count` of them, oldest first."""
    counted = yield from _read_stats(engine, whole("count", count, minimum=1))
    return [message_of(envelope) for envelope in counted[6]]


def leases(engine: JobsEngine, limit: int = 100) -> Exchange[list[LeaseInfo]]:
    """Return the leases that expire first, at most `limit` of them."""
    counted = yield from _read_stats(engine, 1, whole("limit", limit, minimum=1))
    return (yield from _infos(engine, counted[7]))


def held_by(engine: JobsEngine, owner: str) -> Exchange[list[str]]:
    """Return the ids of all leases of an owner."""
    ids = yield Command(("ZRANGE", engine.keys.leases, 0, -1))
    return (yield from leases_of(owner, ids, lambda names: _infos(engine, [name.encode() for name in names])))


def lease_info(engine: JobsEngine, lease_id: str) -> Exchange[LeaseInfo | None]:
    """Return a lease without its token; None when there is none of this id."""
    found = yield from _infos(engine, [check_name("lease_id", lease_id).encode()])
    return found[0] if found else None


def settled(engine: JobsEngine, lease_id: str) -> Exchange[SettledRecord | None]:
    """Return the record that every job of a caller-named lease was acked; None when there is none."""
    return (yield from settled_record(lease_id, engine.keys.done(check_name("lease_id", lease_id))))


def dead_letters(engine: JobsEngine, count: int = 10) -> Exchange[list[Message]]:
    """Return the newest dead letters with their history, at most `count` of them."""
    return [message_of(envelope) for envelope in (yield from _dead(engine, count))]


def peek_dlq(engine: JobsEngine, count: int = 20) -> Exchange[list[Job]]:
    """Return at most `count` of the newest dead letters as jobs; `history` holds the reasons of their failures."""
    return [job_of(envelope, -1) for envelope in (yield from _dead(engine, count))]


def _dead(engine: JobsEngine, count: int) -> Exchange[list[bytes]]:
    found = yield Command(("LRANGE", engine.keys.dead, 0, whole("count", count, minimum=1) - 1))
    return [entry.encode() if isinstance(entry, str) else entry for entry in found]


def _read_stats(engine: JobsEngine, shown: int, listed: int = 1) -> Exchange[list[Any]]:
    counted: list[Any] = yield script("jobs/stats", engine.keys, group=GROUP, shown=shown, listed=listed)
    return counted


def _age(counted: list[Any]) -> float | None:
    return max(0.0, (counted[5] - message_of(counted[6][0]).enqueued_ms) / 1000) if counted[6] else None


def _infos(engine: JobsEngine, ids: list[bytes]) -> Exchange[list[LeaseInfo]]:
    keys, names = engine.keys, [name.decode() for name in ids]
    if not names:
        return []
    replies = yield Pipeline(
        tuple(script("jobs/lease_info", keys, lease=keys.lease(name), lease_id=name) for name in names)
    )
    return [_info(name, reply) for name, reply in zip(names, replies, strict=True) if reply is not None]


def _info(name: str, reply: Any) -> LeaseInfo:
    if isinstance(reply, Exception):
        raise reply
    owner, claimed, takeovers, deadline, count, settled, fence = reply
    return LeaseInfo(name, owner.decode(), "held", count, settled, takeovers, moment(claimed), moment(deadline), fence)
