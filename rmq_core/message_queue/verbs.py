"""The verbs of a gateway over the leased engine, and the exchanges that they need besides the engine's own.

A message that a gateway hands out is a lease of one. Its failure is final, as its success is: both end the lease, they
differ in the log it goes to. What comes back by itself is what nobody settled in time.
"""

from __future__ import annotations

from time import monotonic

from rmq_core.codec import split, unblamed
from rmq_core.errors import ConfigurationError, LeaseLost, QueueBackpressureError, QueueFull, ScriptFailed
from rmq_core.events import EventOperation
from rmq_core.exchange import Batch, Command, Exchange, Interrupted, Patience, together
from rmq_core.exchange.scripts import script
from rmq_core.ids import new_id
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.leased.engine import Engine
from rmq_core.leased.operations import claiming, inspecting, managing, publishing, reclaiming, settling
from rmq_core.message_queue.gateway import Channels, giving_up
from rmq_core.message_queue.keys import Part
from rmq_core.message_queue.stored import ClaimedMessage, Grant, MessageData, held, lease_of, token_text
from rmq_core.messages import Lease, envelope_of

_UNBOUNDED = 1 << 40
_MOST_LATE, _AT_ONCE = 10_000, 100
_LISTS = {Part.PENDING: "ready", Part.COMPLETED: "completed", Part.FAILED: "failed", Part.DEAD_LETTER: "dead"}


async def publish_message(channels: Channels, queue: str, message: str, dedup_key: str) -> bool:
    """Add a message unless `dedup_key` is remembered; whether it was added."""
    return await _publish(channels, queue, message, dedup_key, channels.patience(given_up=giving_up.get()))


async def add_message(channels: Channels, queue: str, message: str) -> None:
    """Add a message."""
    patience = channels.patience(None, giving_up.get())  # sent once: the caller decides whether to publish again
    await _publish(channels, queue, message, None, patience)


async def _publish(channels: Channels, queue: str, message: str, dedup_key: str | None, patience: Patience) -> bool:
    channel, _ = channels.find(queue)
    try:
        published = await channel.run(publishing.publish(channel.engine, message, dedup_key=dedup_key), patience)
    except (QueueFull, Interrupted) as error:
        most, gave_up = channel.engine.config.max_ready, isinstance(error, Interrupted)
        raise QueueBackpressureError(
            f"queue {channel.engine.keys.name!r} has no room: max_pending_length={most} messages wait"
            + ("; the wait for room was given up" if gave_up else "; consume some or raise the limit")
        ) from None
    return published.accepted


async def wait_for_message_and_move(
    channels: Channels,
    from_queue: str,
    to_queue: str,  # noqa: ARG001  the lease knows
) -> ClaimedMessage | MessageData | None:
    """Claim the next message; None when there is none for some seconds, or the wait is interrupted."""
    channel, _ = channels.find(from_queue)
    wait_s, attempt = channels.config.wait, new_id()
    patience = channels.patience(
        wait_s, giving_up.get(), lambda error: channel.note(EventOperation.RETRY_ATTEMPT, attempt, error)
    )
    grant = None if patience.over else await channel.run(claim(channel.engine, wait_s), patience, attempt)
    if grant is None:
        return None
    stored = held(grant, decode=channels.decode)
    if channels.config.delivery.visibility_timeout is None:
        return stored
    return ClaimedMessage(stored, token_text(grant.lease))


async def move_message(
    channels: Channels, from_queue: str, to_queue: str, message: MessageData, *, lease_token: str | None = None
) -> bool:
    """Move a claimed message to a log; False, with nothing changed, when the token is no longer valid."""
    return await _finish(channels, from_queue, message, lease_token, to_queue)


async def remove_message(
    channels: Channels, queue: str, message: MessageData, *, lease_token: str | None = None
) -> bool:
    """Forget a claimed message; False, with nothing changed, when the token is no longer valid."""
    return await _finish(channels, queue, message, lease_token)


async def _finish(
    channels: Channels, queue: str, message: MessageData, token: str | None, log: str | None = None
) -> bool:
    channel, _ = channels.find(queue)
    lease = lease_of(channel.engine.name, message, token)
    if lease is None:
        return False
    part = None if log is None else channels.log(log)
    if part is Part.PENDING:
        return await channel.run(unless_lost(settling.release(channel.engine, lease)))
    return await channel.run(finish(channel.engine, lease, part))


async def renew_message_lease(
    channels: Channels,
    queue: str,
    message: MessageData,  # noqa: ARG001  the token says it all
    lease_token: str,
    *,
    is_interrupted: BaseGracefulInterruptHandler | None = None,
) -> bool:
    """Renew a claim; False when the token is no longer valid. Stops trying once `is_interrupted` says so."""
    channel, _ = channels.find(queue)
    timeout, lease = channels.config.delivery.visibility_timeout, lease_of(channel.engine.name, "", lease_token)
    if timeout is None or lease is None:
        return False
    patience = channels.patience(timeout, is_interrupted.is_interrupted if is_interrupted else None)
    return await channel.run(unless_lost(settling.extend(channel.engine, lease)), patience)


async def trim_queue(channels: Channels, queue: str, max_length: int) -> None:
    """Cut a log to its newest entries."""
    channel, part = channels.find(queue)
    await channel.run(trim(channel.engine, part, max_length))


async def queue_length(channels: Channels, queue: str) -> int:
    """How many messages a part of a queue holds."""
    channel, part = channels.find(queue)
    return await channel.run(length(channel.engine, part))


async def peek_messages(channels: Channels, queue: str, count: int) -> list[MessageData]:
    """Payloads of a part of a queue: the next ones of what waits, the newest of a log."""
    channel, part = channels.find(queue)
    payloads = await channel.run(peek(channel.engine, part, count))
    return [payload.decode() if channels.decode else payload for payload in payloads]


async def redrive_messages(
    channels: Channels,
    from_queue: str,  # noqa: ARG001  there is one place for dead letters
    to_queue: str,
    max_messages: int | None = None,
) -> int:
    """Move the oldest dead letters back with a fresh delivery budget; how many."""
    channel, _ = channels.find(to_queue)
    return await channel.run(managing.redrive(channel.engine, max_messages))


async def purge_queue(channels: Channels, queue: str) -> int:
    """Delete what a part of a queue holds; how many messages."""
    channel, part = channels.find(queue)
    if part is Part.PROCESSING:
        raise ConfigurationError("what is being processed cannot be purged; let it complete or expire")
    return await channel.run(managing.purge(channel.engine, _LISTS[part]))


async def recover_claims(channels: Channels, queue: str, budget_s: float | None = None) -> bool:
    """Give back what claims took whose answer never came, within some seconds; whether nothing of it is left."""
    channel, _ = channels.find(queue)
    patience = channels.config.patience._replace(given_up=None)
    if budget_s is not None:
        until = monotonic() + budget_s
        patience = channels.patience(budget_s)._replace(given_up=lambda: monotonic() >= until, hurried=True)
    try:
        await channel.run(managing.release_unanswered(channel.engine), patience)
    except Interrupted:
        return False
    return not channel.engine.unanswered


def claim(engine: Engine, wait_s: int) -> Exchange[Grant | None]:
    """The oldest message that may be delivered once more; others are dead letters from now on."""
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
            deliveries = parts.deliveries + lease.takeovers + 1
            if most is None or deliveries - unblamed(parts.history) <= most:
                return Grant(lease, parts.id, parts.payload, deliveries)
            yield from settling.nack(engine, lease, reason="max_delivery_count is exceeded")
    except Interrupted:
        return None


def _take_back(engine: Engine, lease: Lease | None) -> Exchange[None]:
    """Reclaim what is expired so that it is next, the earliest deadline first, and before the message just claimed."""
    if lease is not None:
        yield from unless_lost(settling.release(engine, lease))
    late = yield script("message_queue/expired", engine.keys, most=_MOST_LATE)
    late.reverse()
    for first in range(0, len(late), _AT_ONCE):
        chunk = late[first : first + _AT_ONCE]
        dying = yield from _dying(engine, chunk)
        yield from together([reclaiming.reclaim(engine, name.decode()) for name in reversed(chunk) if name in dying])
        yield from together([reclaiming.reclaim(engine, name.decode()) for name in chunk if name not in dying])


def _dying(engine: Engine, late: list[bytes]) -> Exchange[set[bytes]]:
    """Those that become dead letters, which are kept in the order in which they died."""
    most = engine.config.max_deliveries
    if most is None:
        return set()
    leases = (engine.keys.lease(name.decode()) for name in late)
    found = yield Batch(tuple(script("lists/peek", list=lease, count=-2) for lease in leases))
    return {name for name, entries in zip(late, found, strict=True) if _used(entries) >= most}


def _used(entries: list[bytes]) -> int:
    """How many deliveries count against the message of a lease, given its head and its envelope."""
    if len(entries) < 2:
        return 0
    parts = split(entries[1])
    return parts.deliveries - unblamed(parts.history) + int(entries[0].split()[3]) + 1


def finish(engine: Engine, lease: Lease, log: Part | None = None) -> Exchange[bool]:
    """End a lease, its message kept in a log if one is given; False when it is no longer held."""
    if log is None:
        reply = yield settling.acking(engine, lease, 0, 0)
    else:
        reply = yield settling.acking(engine, lease, 0, _UNBOUNDED, list_of(engine, log))
    if not reply.startswith((b"acked", b"lost")):
        raise ScriptFailed(f"settling lease {lease.id!r} got {reply.decode()!r}")
    lease.fate.settled = True
    return bool(reply.startswith(b"acked"))


def unless_lost(exchange: Exchange[object]) -> Exchange[bool]:
    """Settle or extend a lease; False when it is no longer held."""
    try:
        yield from exchange
    except LeaseLost:
        return False
    return True


def trim(engine: Engine, part: Part, most: int) -> Exchange[None]:
    """Keep the newest messages of what waits, where they are last, or of a log, where they are first."""
    kept = (-most, -1) if part is Part.PENDING else (0, most - 1)
    yield Command(("LTRIM", list_of(engine, part), *kept))


def length(engine: Engine, part: Part) -> Exchange[int]:
    """How many messages a part holds."""
    if part is Part.PROCESSING:
        count = yield Command(("ZCARD", engine.keys.leases))
    else:
        count = yield Command(("LLEN", list_of(engine, part)))
    if part is Part.PENDING:  # with what failed together in leases of a `LeasedQueue`
        count += yield Command(("ZCOUNT", engine.keys.delayed, "-inf", "(0"))
    return int(count)


def peek(engine: Engine, part: Part, count: int) -> Exchange[list[bytes]]:
    """Payloads of a part: those that are next of what waits, the newest of a log."""
    if part is Part.PROCESSING:
        found = yield from _held(engine, count)
    else:
        found = yield script("lists/peek", list=list_of(engine, part), count=-count)
    return [split(envelope).payload for envelope in found]


def list_of(engine: Engine, part: Part) -> bytes:
    """The key of the list behind a part."""
    if part not in _LISTS:
        raise ConfigurationError(f"'{part}' is no list of messages; name another part of the queue")
    key: bytes = getattr(engine.keys, _LISTS[part])
    return key


def _held(engine: Engine, count: int) -> Exchange[list[bytes]]:
    infos = yield from inspecting.leases(engine, count)
    keys = [engine.keys.lease(info.id) for info in infos]
    replies = yield Batch(tuple(script("lists/peek", list=key, count=1) for key in keys))
    return [found[0] for found in replies if found]
