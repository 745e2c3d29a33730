"""Inspect a queue and its messages without claiming anything."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from rmq_core.envelope.codec import Message, arrow_columns, message_of
from rmq_core.errors import ConfigurationError
from rmq_core.exchange import Call, Command, Exchange, Pipeline, text_of
from rmq_core.exchange.scripts import answered, script
from rmq_core.kernel.keys import UNHELD, LeasedKeys, check_name
from rmq_core.kernel.settings import fresh
from rmq_core.kernel.settling import leases_of, settled_record
from rmq_core.leased.claiming import chosen_by, isolation_of, reclaim_all, ungrouped
from rmq_core.leased.publishing import COMMIT
from rmq_core.leased.reading import Part, any_part, any_parts, held_parts
from rmq_core.leased.shards.state import DECIDED, PART
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import IsolatedGroup, Lease
from rmq_core.policy import age_s, chosen_groups, moment, whole
from rmq_core.reports import Backlog, LeaseInfo, MessagePage, QueueStats, SettledRecord, ShardStats

_LISTED, _LOOKS = 1000, 20
_NO_LEASES = (text_of(COMMIT), DECIDED, PART)
"""What names begin with that have a deadline as leases have; a part counts with its lease, in the first shard."""
NOTHING_HELD = (0, "")
"""In place of a reply to `held_call`, for a queue without leases."""
_STATES = {b"f": "filling", b"h": "held", b"p": "held", b"q": "held"}


def read(engine: LeasedEngine, lease: Lease, lo: int = 0, hi: int | None = None) -> Exchange[list[Message]]:
    """Return the unsettled messages `lo` to `hi` (exclusive) of a lease. Raises LeaseLost."""
    found = yield from held_parts(engine, lease, lo, hi, partial(_decoded, lease.id))
    return list(chain.from_iterable(found))


def read_arrow(engine: LeasedEngine, lease: Lease, lo: int = 0, hi: int | None = None) -> Exchange[Any]:
    """Return the unsettled messages `lo` to `hi` (exclusive) as a pyarrow.Table: for pandas, Polars, DuckDB.

    Columns, none of them null: message_id (string), payload (binary, as stored: UTF-8 of a str, JSON of a dict or
    list), headers (map of string to string), deliveries (int32), enqueued_at (timestamp in us, UTC), a string for each
    header that is a field, index (int64, the place in the lease), lease and queue (string). Raises LeaseLost,
    MalformedMessage, UnknownPayloadKind, and ConfigurationError without the extra `arrow`.
    """
    arrow = arrow_columns()

    def batch_of(part: Part) -> Any:
        return arrow.batch_of(part.envelopes, part.indexes, part.takeovers + 1, lease.id, engine.name)

    return arrow.table_of((yield from held_parts(engine, lease, lo, hi, batch_of)))


def browse_lease(engine: LeasedEngine, lease_id: str, lo: int = 0, hi: int = 25) -> Exchange[list[Message]]:
    """Return the unsettled messages `lo` to `hi` (exclusive) of any lease, without its token; [] without a lease."""
    name, first, last = check_name("lease_id", lease_id), whole("lo", lo), whole("hi", hi)
    found = yield from any_parts(engine, name, first, last, partial(_decoded, name))
    return list(chain.from_iterable(found))


def _decoded(lease_id: str, part: Part) -> list[Message]:
    return [
        message_of(envelope, index, lease_id, part.takeovers + 1)
        for index, envelope in zip(part.indexes, part.envelopes, strict=True)
    ]


def leased_envelopes(engine: LeasedEngine, lease_id: str, lo: int, hi: int) -> Exchange[tuple[str, int, list[bytes]]]:
    """Return the owner of a lease, how many messages were read from `lo` on, and those of them that are unsettled."""
    info = yield from _infos(engine, [lease_id])
    part = (yield from any_part(engine, lease_id, lo, hi)) if info else None
    return ("", 0, []) if part is None else (info[0].owner, part.taken, list(part.envelopes))


def backlog(engine: LeasedEngine, *, groups: Collection[str] | None = None) -> Exchange[Backlog]:
    """Return how much work is ready and how old it is. Cheap; due and expired messages count as ready.

    groups: only the messages of these groups count, as for `claim`; the oldest is then exact for up to 100 groups.
    Raises ConfigurationError for `groups` where the queue has none.
    """
    state = yield from poll_backlog(engine, groups=None if groups is None else chosen_groups(groups))
    return state[0]


class Glance(NamedTuple):
    """A backlog, the seconds until the queue's next due time, and the expired leases, which the backlog leaves out."""

    backlog: Backlog
    due_s: float | None
    late: list[bytes]


def glance(engine: LeasedEngine, notify_ms: int = 0, groups: str | None = None, watcher: str = "*") -> Exchange[Glance]:
    """Read the backlog in one call without a slot, and subscribe to one notification within `notify_ms`.

    groups: those whose messages count, in the form that scripts read. watcher: see backlog.lua.
    """
    reply = yield from answered(
        script("leased/backlog", engine.keys, notify_ms=notify_ms, watcher=watcher, **chosen_by(groups))
    )
    if len(reply) == 1:
        raise ungrouped(engine)
    ready, oldest, now, due, late, apart, paused, fence = reply
    until = max(0.0, (int(due) - int(now)) / 1000) if due else None
    isolated = tuple(IsolatedGroup(size, most) for size, most in zip(apart[::2], apart[1::2], strict=True))
    found = Backlog(ready, age_s(oldest, now), isolated, bool(paused), int(fence) if fence else None)
    return Glance(found, until, late)


def poll_backlog(
    engine: LeasedEngine, notify_ms: int = 0, groups: str | None = None, watcher: str = "*"
) -> Exchange[tuple[Backlog, float | None]]:
    """Reclaim expired leases; return the backlog and the seconds until the next due time. Arguments as for `glance`."""
    while True:
        seen = yield from glance(engine, notify_ms, groups, watcher)
        if not (yield from reclaim_all(engine, seen.late)):
            return seen.backlog, seen.due_s


def poll_queue(
    engine: LeasedEngine, notify_ms: int = 0, groups: str | None = None
) -> Exchange[tuple[Backlog, float | None]]:
    """Do what `poll_backlog` does, in all shards of a queue that has some."""
    if engine.keys.layout != "sharded":
        found = yield from poll_backlog(engine, notify_ms, groups)
        if engine.keys.layout != "sharded":
            return found
    from rmq_core.leased.shards.inspecting import poll  # its module imports this one

    return (yield from poll(engine, notify_ms, groups))


def stats(engine: LeasedEngine) -> Exchange[QueueStats]:
    """Return what the queue holds. Of more than 1,000 leases, only the 1,000 that expire first are looked at.

    Messages in leases are counted after the others. So one that is released between the two is in neither count, but a
    queue never seems empty because of that.
    """
    for _ in range(_LOOKS):
        counted = yield count_call(engine)
        if not counted[7]:
            return stats_of(counted, NOTHING_HELD)
        found = stats_of(counted, (yield held_call(engine, counted)))
        if found.leased or not found.leases:  # else all leases have ended since; their messages may be ready again
            break
    return found


def shards(engine: LeasedEngine) -> Exchange[list[ShardStats]]:
    """Return the shards of the queue and what each holds, also those that do not answer; [] for a queue without shards.

    A shard is given two attempts, so this does not wait long for one that is away.
    """
    engine.look_at = 0.0
    yield from fresh(engine)
    if engine.shards is None:
        return []
    from rmq_core.leased.shards.inspecting import shard_stats  # its module imports this one

    return (yield from shard_stats(engine.shards))


def count_call(engine: LeasedEngine) -> Call:
    """Return the call that counts a queue and lists its leases; `held_call` and `stats_of` read the reply."""
    return _counts(engine, _LISTED)


def held_call(engine: LeasedEngine, counted: Sequence[Any]) -> Call:
    """Return the call that counts the messages of the leases that `count_call` listed, at least one."""
    keys, names = engine.keys, map(text_of, counted[7])
    return script("leased/held", lists=tuple(key for name in names for key in (keys.lease(name), keys.settled(name))))


def stats_of(counted: Sequence[Any], held: Sequence[Any]) -> QueueStats:
    """Return the numbers of a queue, from the replies of `count_call` and `held_call`."""
    ready, delayed, leases, dead, paused, oldest, now, ids, isolated = counted
    leases -= sum(text_of(name).startswith(_NO_LEASES) for name in ids)
    leased, claimed = held
    return QueueStats(
        ready, delayed, leased, leases, dead, age_s(oldest, now), bool(paused), isolated, age_s(claimed, now)
    )


class Overview(NamedTuple):
    """What a queue holds, and whether one of its leases has expired by the server's clock."""

    stats: QueueStats
    late: bool


def overview(engine: LeasedEngine) -> Exchange[Overview | None]:
    """Return what `stats` returns, and whether a lease has expired. Yields only calls, as `together` demands.

    Returns None for a queue in shards: the keys that it reads are those of the first one only.
    """
    counted = yield from answered(count_call(engine))
    if engine.keys.layout == "sharded":
        return None
    if not counted[7]:
        return Overview(stats_of(counted, NOTHING_HELD), late=False)
    held = yield held_call(engine, counted)
    first = text_of(counted[7][0])
    reply = yield _info_call(engine.keys, first)
    deadline = None if reply is None else _info(first, reply).deadline
    return Overview(stats_of(counted, held), deadline is not None and deadline <= moment(counted[6]))


def _counts(engine: LeasedEngine, listed: int) -> Call:
    """Return the call that counts everything in one script and lists the ids of `listed` leases, at least 1."""
    return script("leased/stats", engine.keys, listed=listed)


def leases(engine: LeasedEngine, limit: int = 100) -> Exchange[list[LeaseInfo]]:
    """Return the leases that expire first, at most `limit` of them."""
    ids = yield Command(("ZRANGE", engine.keys.leases, 0, whole("limit", limit, minimum=1) - 1))
    return (yield from _infos(engine, ids))


def held_by(engine: LeasedEngine, owner: str) -> Exchange[list[str]]:
    """Return the ids of all leases of an owner."""
    ids = yield Command(("ZRANGE", engine.keys.leases, 0, -1))
    return (yield from leases_of(owner, ids, partial(_infos, engine)))


def lease_info(engine: LeasedEngine, lease_id: str) -> Exchange[LeaseInfo | None]:
    """Return a lease without its token; None when no lease has this id."""
    found = yield from _infos(engine, [check_name("lease_id", lease_id)])
    return found[0] if found else None


def server_time(engine: LeasedEngine) -> Exchange[datetime]:
    """Return the time of the Redis server, by which leases expire; the clock of this machine may differ."""
    _, _, _, _, _, _, now, *_ = yield _counts(engine, 1)
    return moment(now)


def settled(engine: LeasedEngine, lease_id: str) -> Exchange[SettledRecord | None]:
    """Return the record that a lease, whose id the caller chose, was acked as a whole; None when there is none."""
    return (yield from settled_record(lease_id, engine.keys.done(check_name("lease_id", lease_id))))


def peek(engine: LeasedEngine, count: int = 1) -> Exchange[list[Message]]:
    """Return the next messages to be claimed, at most `count`: the oldest first, isolated messages after the others."""
    found = yield script(
        "kernel/list_peek", engine.keys, list=engine.keys.ready, count=-whole("count", count, minimum=1)
    )
    if len(found) < count and not engine.keys.layout:  # in groups, they are among the others
        most = min(count - len(found), _LISTED)
        found += (yield browsing(engine, engine.keys.delayed, "isolated", 0, most))[1]
    return [message_of(envelope) for envelope in found]


def dead_letters(engine: LeasedEngine, count: int = 10) -> Exchange[list[Message]]:
    """Return the newest dead letters with their history, at most `count` of them."""
    found = yield script("kernel/list_peek", list=engine.keys.dead, count=-whole("count", count, minimum=1))
    return [message_of(envelope) for envelope in found]


def browse(engine: LeasedEngine, target: str, offset: int = 0, count: int = 25) -> Exchange[MessagePage]:
    """Return at most `count` messages after the first `offset`, fewer when they are large.

    target: `ready` and `isolated` are in the order of claiming; isolated messages are among the ready ones only where
    messages wait in groups. `delayed` is in the order of due times, `dead`, `completed` and `failed` have the newest
    message first.
    """
    if not isinstance(target, str) or target not in UNHELD:
        raise ConfigurationError(
            f"target must be one of {', '.join(UNHELD)}, not {target!r}; browse_lease reads leases"
        )
    key, kind = stored_in(engine, target)
    most = min(whole("count", count, minimum=1), _LISTED)
    total, found, due = yield browsing(engine, key, kind, whole("offset", offset), most)
    return MessagePage(total, [message_of(envelope) for envelope in found], [moment(ms) for ms in due])


def browsing(engine: LeasedEngine, key: bytes, kind: str, offset: int, most: int) -> Call:
    """Return the call that reads messages; `stored_in` gives the key and the kind."""
    return script("leased/browse", engine.keys, key=key, offset=offset, most=most, kind=kind)


def stored_in(engine: LeasedEngine, target: str) -> tuple[bytes, str]:
    """Return the key of messages that are not leased, and their kind; isolated and delayed messages share a key.

    Where messages wait in groups, the isolated ones are among the others, and `browsing` finds them there.
    """
    if target in {"delayed", "isolated"}:
        return engine.keys.delayed, target
    return engine.keys.of(target), "list"


def _infos(engine: LeasedEngine, ids: Sequence[bytes | str]) -> Exchange[list[LeaseInfo]]:
    keys, names = engine.keys, [text_of(name) for name in ids]
    if not names:
        return []
    replies = yield Pipeline(tuple(_info_call(keys, name) for name in names))
    return [_info(name, reply) for name, reply in zip(names, replies, strict=True) if reply is not None]


def _info_call(keys: LeasedKeys, name: str) -> Call:
    return script("leased/info", keys, lease=keys.lease(name), settled=keys.settled(name), lease_id=name)


def _info(name: str, reply: Any) -> LeaseInfo:
    if isinstance(reply, Exception):
        raise reply
    owner, state, claimed, takeovers, deadline, count, settled_count, fence = reply[:8]
    until = None if b"inf" in deadline else moment(deadline)
    return LeaseInfo(
        name, owner.decode(), _STATES.get(state, "returning"), count, settled_count, takeovers, moment(claimed), until,
        int(fence), isolation_of(reply[8:]),
    )  # fmt: skip
