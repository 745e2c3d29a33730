"""The exchanges that the gateway runs besides those of leased queues. They do no IO and read no clock.

A message that a gateway hands out is a lease of one message. Success and failure are both final: both end the lease and
differ only in the log that the message goes to. Only a message that is not settled in time returns to the queue.
"""

from __future__ import annotations

from rmq_core.envelope.codec import message_of, split, unblamed
from rmq_core.envelope.payloads import KINDS, readable
from rmq_core.errors import ConfigurationError, LeaseLost, ScriptFailed, UnknownPayloadKind
from rmq_core.events import Operation
from rmq_core.exchange import Command, Exchange, Interrupted, Pipeline, together
from rmq_core.exchange.scripts import script
from rmq_core.leased import claiming, inspecting, reclaiming, settling
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease, envelope_of
from rmq_core.redis_message_queue.part_names import QueuePart
from rmq_core.redis_message_queue.stored import Grant
from rmq_core.running import reason_of

LISTS = {
    QueuePart.PENDING: "ready",
    QueuePart.COMPLETED: "completed",
    QueuePart.FAILED: "failed",
    QueuePart.DEAD_LETTER: "dead",
}
_ENDED: dict[QueuePart | None, Operation] = {QueuePart.FAILED: Operation.NACK, QueuePart.DEAD_LETTER: Operation.DEAD}
_UNBOUNDED = 1 << 40
_MOST_LATE, _AT_ONCE = 10_000, 100
_UNKNOWN_S = 60
"""Seconds until a message of an unknown kind is tried again, so that it does not keep other messages waiting."""


def claim(engine: LeasedEngine, wait_s: int) -> Exchange[Grant | None]:
    """Claim the oldest message that has deliveries left; messages before it that have none become dead letters.

    Raises UnknownPayloadKind, after a nack with a delay, for a message that only a later version can decode.
    """
    most = engine.config.max_deliveries
    try:
        while True:
            late: list[bytes] = []
            lease = yield from claiming.grant(engine, claiming.requested(engine), 1000 * wait_s, late)
            if late:  # the engine would reclaim them only after handing this lease out
                yield from _take_back(engine, lease)
                continue
            if lease is None:
                return None
            parts = split(envelope_of(lease))
            kind, payload = readable(parts.kind, parts.payload)
            if kind not in KINDS:
                unknown = UnknownPayloadKind(kind)
                yield from unless_lost(settling.nack(engine, lease, delay=_UNKNOWN_S, reason=reason_of(unknown)))
                raise unknown
            deliveries = parts.deliveries + lease.takeovers + 1
            if most is None or deliveries - unblamed(parts.history) <= most:
                return Grant(lease, parts.id, payload, deliveries)
            yield from settling.nack(engine, lease, reason="max_delivery_count is exceeded")
    except Interrupted:
        return None


def _take_back(engine: LeasedEngine, lease: Lease | None) -> Exchange[None]:
    """Reclaim expired leases so that their messages are next, the earliest deadline first.

    The message that was just claimed is released first, so that it comes after them.
    """
    if lease is not None:
        yield from unless_lost(settling.release(engine, lease))
    late = yield script("redis_message_queue/expired", engine.keys, most=_MOST_LATE)
    late.reverse()
    for first in range(0, len(late), _AT_ONCE):
        chunk = late[first : first + _AT_ONCE]
        dying = yield from _dying(engine, chunk)
        yield from together([reclaiming.reclaim(engine, name.decode()) for name in reversed(chunk) if name in dying])
        yield from together([reclaiming.reclaim(engine, name.decode()) for name in chunk if name not in dying])


def _dying(engine: LeasedEngine, late: list[bytes]) -> Exchange[set[bytes]]:
    """Return the leases whose messages become dead letters; dead letters are kept in order of their expiry."""
    most = engine.config.max_deliveries
    if most is None:
        return set()
    leases = (engine.keys.lease(name.decode()) for name in late)
    found = yield Pipeline(tuple(script("kernel/list_peek", list=lease, count=-2) for lease in leases))
    return {name for name, entries in zip(late, found, strict=True) if _used(entries) >= most}


def _used(entries: list[bytes]) -> int:
    """Return how many deliveries count against the message of a lease, given its head and its envelope."""
    if len(entries) < 2:
        return 0
    parts = split(entries[1])
    return parts.deliveries - unblamed(parts.history) + int(entries[0].split()[3]) + 1


def finish(engine: LeasedEngine, lease: Lease, log: QueuePart | None = None) -> Exchange[bool]:
    """End a lease and keep its message in a log if one is given; False when the lease is no longer held."""
    if log is None:
        reply = yield settling.acking(engine, lease, 0, 0)
    else:
        reply = yield settling.acking(engine, lease, 0, _UNBOUNDED, list_of(engine, log))
    if not reply.startswith((b"acked", b"lost")):
        raise ScriptFailed(f"settling lease {lease.id!r} got {reply.decode()!r}")
    lease.state.settled = True
    acked = bool(reply.startswith(b"acked"))
    if acked:
        engine.state(_ENDED.get(log, Operation.ACK), 1, lease)
    return acked


def unless_lost(exchange: Exchange[object]) -> Exchange[bool]:
    """Run an exchange that settles or extends a lease; False when the lease is no longer held."""
    try:
        yield from exchange
    except LeaseLost:
        return False
    return True


def trim(engine: LeasedEngine, part: QueuePart, most: int) -> Exchange[None]:
    """Keep the newest `most` messages of a part: the last entries of the pending list, the first ones of a log."""
    kept = (-most, -1) if part is QueuePart.PENDING else (0, most - 1)
    yield Command(("LTRIM", list_of(engine, part), *kept))


def length(engine: LeasedEngine, part: QueuePart) -> Exchange[int]:
    """Return how many messages a part holds."""
    if part is QueuePart.PROCESSING:
        count = yield Command(("ZCARD", engine.keys.leases))
    else:
        count = (yield inspecting.browsing(engine, list_of(engine, part), "list", 0, 0))[0]
    if part is QueuePart.PENDING:  # includes isolated messages, which failed together in leases of a `LeasedQueue`
        count += yield Command(("ZCOUNT", engine.keys.delayed, "-inf", "(0"))
    return int(count)


def peek(engine: LeasedEngine, part: QueuePart, count: int) -> Exchange[list[bytes]]:
    """Return at most `count` payloads of a part: the next to be delivered, or the newest of a log."""
    if part is QueuePart.PROCESSING:
        found = yield from _held(engine, count)
    else:
        found = yield script("kernel/list_peek", engine.keys, list=list_of(engine, part), count=-count)
    return [message_of(envelope).raw for envelope in found]


def list_of(engine: LeasedEngine, part: QueuePart) -> bytes:
    """Return the key of the list behind a part."""
    if part not in LISTS:
        raise ConfigurationError(f"'{part}' is no list of messages; name another part of the queue")
    return engine.keys.of(LISTS[part])


def _held(engine: LeasedEngine, count: int) -> Exchange[list[bytes]]:
    infos = yield from inspecting.leases(engine, count)
    keys = [engine.keys.lease(info.id) for info in infos]
    replies = yield Pipeline(tuple(script("kernel/list_peek", list=key, count=1) for key in keys))
    return [found[0] for found in replies if found]
