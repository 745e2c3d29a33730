"""Looking at a queue and at what it holds; nothing is claimed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from rmq_core.exchange import Batch, Call, Command, Exchange
from rmq_core.keys import check_name
from rmq_core.leased.engine import Engine
from rmq_core.leased.operations.claiming import lost, reclaim_all, token_of
from rmq_core.lua import load
from rmq_core.messages import Backlog, Lease, LeaseInfo, Message, QueueStats, SettledRecord, message_of
from rmq_core.policy import whole

_LISTED = 1000


def read(engine: Engine, lease: Lease, lo: int = 0, hi: int | None = None) -> Exchange[list[Message]]:
    """The messages `lo` to `hi` (exclusive) of a lease that are not settled yet. Raises LeaseLost."""
    whole("lo", lo)
    hi = lease.count if hi is None else min(whole("hi", hi), lease.count)
    found: list[Message] = []
    while lo < hi:
        batch, taken = yield from _slice(engine, lease, lo, hi - 1)
        if not taken:
            break
        found += batch
        lo += taken
    return found


def _slice(engine: Engine, lease: Lease, lo: int, last: int) -> Exchange[tuple[list[Message], int]]:
    keys = engine.keys
    reply = yield Call(
        load("leased/read"),
        (keys.lease(lease.id), keys.settled(lease.id)),
        (token_of(lease), lo, min(last, lo + 3999)),
        slot=False,
    )
    if reply[0] != b"read":
        raise lost(engine, lease)
    takeovers, first, bits, envelopes = reply[1:]
    if bits:
        settled = int.from_bytes(bits, "big")
        size = len(bits) * 8
        kept = [
            (lo + place, envelope)
            for place, envelope in enumerate(envelopes)
            if (at := size - 1 - (lo + place - first * 8)) < 0 or not settled >> at & 1
        ]
    else:
        kept = list(enumerate(envelopes, lo))
    return [message_of(envelope, index, lease.id, takeovers + 1) for index, envelope in kept], len(envelopes)


def backlog(engine: Engine) -> Exchange[Backlog]:
    """How much work is ready and how old it is. Cheap; due and expired messages are counted as ready."""
    state = yield from look(engine)
    return state[0]


def look(engine: Engine, bell_ms: int = 0) -> Exchange[tuple[Backlog, float | None]]:
    """The backlog, and the seconds until the next due time; arms the bell for `bell_ms`."""
    keys = engine.keys
    while True:
        ready, oldest, now, due, late = yield Call(
            load("leased/backlog"),
            (keys.ready, keys.delayed, keys.leases, keys.waiters),
            (bell_ms,),
            slot=False,
        )
        if not (yield from reclaim_all(engine, late)):
            break
    until = max(0.0, (int(due) - int(now)) / 1000) if due else None
    return Backlog(ready, _age(oldest, now)), until


def stats(engine: Engine) -> Exchange[QueueStats]:
    """What the queue holds. The number of leased messages is exact up to 1,000 leases, then of the 1,000 oldest."""
    keys = engine.keys
    ready, delayed, leases, dead, paused, oldest, now, ids = yield Call(
        load("leased/stats"), (keys.ready, keys.delayed, keys.leases, keys.dead, keys.waiters), (_LISTED,), slot=False
    )
    infos = yield from _infos(engine, ids)
    leased = sum(info.count - info.settled for info in infos)
    return QueueStats(ready, delayed, leased, leases, dead, _age(oldest, now), bool(paused))


def leases(engine: Engine, limit: int = 100) -> Exchange[list[LeaseInfo]]:
    """The leases that expire first, at most `limit` of them."""
    ids = yield Command(("ZRANGE", engine.keys.leases, 0, whole("limit", limit, minimum=1) - 1))
    return (yield from _infos(engine, ids))


def lease_info(engine: Engine, lease_id: str) -> Exchange[LeaseInfo | None]:
    """A lease without its token; None when there is none of this id."""
    found = yield from _infos(engine, [check_name("lease_id", lease_id)])
    return found[0] if found else None


def settled(engine: Engine, lease_id: str) -> Exchange[SettledRecord | None]:
    """The record that every message of a caller-named lease was acked; None when there is none."""
    record = yield Command(("GET", engine.keys.done(check_name("lease_id", lease_id))))
    if record is None:
        return None
    acked, at_ms, owner = _text(record).split(" ", 2)
    return SettledRecord(lease_id, int(acked), owner, _moment(at_ms))


def peek(engine: Engine, count: int = 1) -> Exchange[list[Message]]:
    """The messages that would be claimed next, at most `count` of them, oldest first."""
    found = yield Call(load("leased/peek"), (engine.keys.ready,), (whole("count", count, minimum=1),), slot=False)
    return [message_of(envelope) for envelope in reversed(found)]


def dead_letters(engine: Engine, count: int = 10) -> Exchange[list[Message]]:
    """The newest dead letters with their history, at most `count` of them."""
    found = yield Call(load("leased/peek"), (engine.keys.dead,), (-whole("count", count, minimum=1),), slot=False)
    return [message_of(envelope) for envelope in found]


def _infos(engine: Engine, ids: Sequence[bytes | str]) -> Exchange[list[LeaseInfo]]:
    keys, names = engine.keys, [_text(name) for name in ids]
    if not names:
        return []
    script = load("leased/info")
    replies = yield Batch(
        tuple(Call(script, (keys.leases, keys.lease(n), keys.settled(n)), (n,), slot=False) for n in names)
    )
    return [_info(name, reply) for name, reply in zip(names, replies, strict=True) if reply is not None]


def _info(name: str, reply: Any) -> LeaseInfo:
    if isinstance(reply, Exception):
        raise reply
    owner, state, claimed, takeovers, deadline, count, settled_count, fence = reply
    until = None if b"inf" in deadline else _moment(deadline)
    return LeaseInfo(
        name, owner.decode(), state.decode(), count, settled_count, takeovers, _moment(claimed), until, int(fence)
    )


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _moment(ms: bytes | str) -> datetime:
    return datetime.fromtimestamp(float(ms) / 1000, UTC)


def _age(oldest: bytes, now: bytes) -> float | None:
    return max(0.0, (int(now) - int(oldest)) / 1000) if oldest else None
