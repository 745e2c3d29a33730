"""Extend a lease; ack, nack or release it as a whole or only some of its messages. The token fences all of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from rmq_core.envelope.codec import Message, MessageRef, stored_deliveries
from rmq_core.envelope.payloads import one_line
from rmq_core.errors import ScriptFailed
from rmq_core.events import Operation
from rmq_core.exchange import Call, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.settling import Some, deadline_of, extend_each, of_lease, without_report
from rmq_core.leased.publishing import apart, check, confirming
from rmq_core.leased.reclaiming import state_dead
from rmq_core.leased.state import LeasedEngine
from rmq_core.messages import Lease, envelopes_of, token_of
from rmq_core.policy import milliseconds
from rmq_core.reports import Outcome, SettleReport

_LETTERS = {"s": Outcome.SETTLED, "d": Outcome.DEAD, "a": Outcome.SETTLED_BEFORE, "m": Outcome.MISSING}
NOW = "1 0"
REJECT = "reject"
"""A nack with max_deliveries 1."""
MOVE = "move"
"""What an operator does to a message that another holds: the same, with a line that names the operator."""
_COVERED = 64


def extend(engine: LeasedEngine, lease: Lease, by: timedelta | float | None = None) -> Exchange[datetime | None]:
    """Move the deadline to `by` from now, never to an earlier time.

    by: seconds or timedelta; None is the queue's lease time. Returns the deadline, or None when the lease never
    expires. Costs the same for 1 and for 1,000,000 messages. Raises LeaseLost.
    """
    reply = yield extension(engine, lease, by)
    if reply == b"lost":
        raise engine.lost(lease)
    return deadline_of(lease, reply)


def extend_all(engine: LeasedEngine, leases: Sequence[tuple[Lease, float | None]]) -> Exchange[list[bool]]:
    """Extend many leases in one write; return True for each that is extended, False for each that is lost."""
    return (yield from extend_each(extension(engine, lease, by) for lease, by in leases))


def extension(engine: LeasedEngine, lease: Lease, by: timedelta | float | None) -> Call:
    return script(
        "leased/extend", engine.keys, engine.settings, lease=engine.keys.lease(lease.id), lease_id=lease.id,
        token=token_of(lease), lease_ms=engine.lease_ms(by, "by"),
    )  # fmt: skip


def ack(engine: LeasedEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Finish all messages of a lease, or only the given ones.

    When the lease is lost, acking the whole lease raises LeaseLost; acking some messages reports it as their outcome.
    """
    if messages is not None:
        return (yield from settle_some(engine, lease, "ack", messages))
    config = engine.config
    call = acking(engine, lease, config.settled_ttl_ms if lease.named else 0, config.completed_log)
    call = confirming(engine, call)
    with lease.state:
        reply, confirmed = apart(call, (yield call))
        if not reply.startswith(b"acked"):
            raise _refused(engine, lease, reply)
        lease.state.settled = True
    count = int(reply[6:])
    engine.state(Operation.ACK, count, lease)
    check(engine, f"acked lease {lease.id!r}", confirmed)
    return SettleReport(count)


def acking(engine: LeasedEngine, lease: Lease, done_ttl_ms: int, most: int, log: bytes | None = None) -> Call:
    """Return the call that acks a whole lease.

    log: the list in which the acked messages are kept, at most `most` in all; None is the completed log.
    """
    keys = engine.keys
    kept: dict[str, bytes | int] = {}
    if done_ttl_ms or most:
        kept = {"done": keys.done(lease.id), "completed": log or keys.completed}
        kept |= {"done_ttl_ms": done_ttl_ms, "completed_cap": most}
    return script(
        "leased/ack", keys, lease=keys.lease(lease.id), settled=keys.settled(lease.id),
        lease_id=lease.id, token=token_of(lease), **kept,
    )  # fmt: skip


def nack(
    engine: LeasedEngine,
    lease: Lease,
    messages: Some | None = None,
    *,
    delay: timedelta | float | None = None,
    reason: str | None = None,
) -> Exchange[SettleReport]:
    """Requeue messages as failed: the delivery counts; after `max_deliveries` failures they become dead letters.

    delay: seconds or timedelta before they are ready again; None is the queue's backoff, for each message after its own
    number of deliveries. reason: its first 200 characters are kept in the message's history. When the lease is lost,
    nacking the whole lease raises LeaseLost; nacking some messages reports it as their outcome.
    """
    delays = delays_of(engine, lease, delay)
    if messages is not None:
        return (yield from settle_some(engine, lease, "nack", messages, delays, one_line(reason)))
    return (yield from give_back(engine, lease, "nack", delays, reason))


def release(engine: LeasedEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Requeue messages without counting a delivery.

    When the lease is lost, releasing the whole lease raises LeaseLost; releasing some messages reports it as their
    outcome.
    """
    if messages is not None:
        return (yield from settle_some(engine, lease, "release", messages))
    return (yield from give_back(engine, lease, "release"))


def reject(engine: LeasedEngine, lease: Lease, messages: Some, *, reason: str) -> Exchange[SettleReport]:
    """Make messages of a lease dead letters at once, however many deliveries they have left."""
    return (yield from settle_some(engine, lease, REJECT, messages, NOW, one_line(reason)))


def give_back(
    engine: LeasedEngine, lease: Lease, verb: str, delays: str = NOW, reason: str | None = None, *, by: str = ""
) -> Exchange[SettleReport]:
    """Nack or release the whole lease; `by` is who does it, if it is not the holder."""
    keys = engine.keys
    call = script(
        "leased/give_back", keys, engine.settings, lease=keys.lease(lease.id), settled=keys.settled(lease.id),
        lease_id=lease.id, token=token_of(lease), verb=verb, delays=delays, reason=one_line(reason),
    )  # fmt: skip
    with lease.state:
        settled = dead = 0
        while True:
            reply = without_report(engine, (yield call))
            if not reply.startswith(b"returned"):
                raise _refused(engine, lease, reply)
            words = reply.decode().split(" ")
            settled += int(words[1])
            dead += len(words) - 3
            engine.state(Operation(verb), int(words[1]), lease, by=by, reason=reason)
            state_dead(engine, lease.id, words[3:], reason)
            if words[2] == "0":
                lease.state.settled = True
                return SettleReport(settled, dead)


def settle_some(
    engine: LeasedEngine, lease: Lease, verb: str, messages: Some, delays: str = NOW, reason: str = ""
) -> Exchange[SettleReport]:
    with lease.state:
        messages = of_lease(lease, messages)
        refs = [message.index for message in messages]
        outcomes: dict[int, Outcome] = {}
        step = 2000 if verb == "ack" or lease.count <= 4000 else 100  # LINDEX far into a long list is slow
        indexes = sorted(set(refs), reverse=True)
        for first in range(0, len(indexes), step):
            chunk = indexes[first : first + step]
            call = some_call(engine, lease, verb, chunk, delays, reason)
            reply, confirmed = apart(call, (yield call))
            reply = without_report(engine, reply)
            verdict, _, letters = reply.decode().partition(" ")
            if verdict in {"some", "all"}:
                lease.state.settled, lease.state.partly = verdict == "all", True
                outcomes.update(zip(chunk, (_LETTERS[letter] for letter in letters), strict=True))
                if call.then:
                    check(engine, f"acked messages of lease {lease.id!r}", confirmed)
                if verdict == "all":
                    outcomes.update((index, _once_over(lease, index)) for index in indexes[first + step :])
                    break
            elif reply == b"lost":
                engine.lost(lease)
                outcomes.update(dict.fromkeys(chunk, Outcome.LOST))
            else:
                raise _refused(engine, lease, reply)
        settled = sum(outcome in {Outcome.SETTLED, Outcome.DEAD} for outcome in outcomes.values())
        dead = sum(outcome == Outcome.DEAD for outcome in outcomes.values())
        ids = _named(messages, outcomes, {Outcome.SETTLED, Outcome.DEAD})
        stated = Operation.NACK if verb == REJECT else Operation(verb)
        engine.state(stated, settled, lease, ids=ids, reason=reason or None)
        ids = _named(messages, outcomes, {Outcome.DEAD})
        engine.state(Operation.DEAD, dead, lease, ids=ids, reason=reason or None)
        return SettleReport(settled, dead, tuple(outcomes[ref] for ref in refs))


def _named(
    messages: Sequence[Message | MessageRef], outcomes: Mapping[int, Outcome], which: set[Outcome]
) -> Iterator[str]:
    """Yield the ids of the messages with these outcomes."""
    return (message.id for message in messages if outcomes[message.index] in which)


def _once_over(lease: Lease, index: int) -> Outcome:
    """Return the outcome of a message that was not sent to Redis, because an earlier chunk settled the whole lease."""
    return Outcome.SETTLED_BEFORE if 0 <= index < lease.count else Outcome.MISSING


def some_call(engine: LeasedEngine, lease: Lease, verb: str, indexes: list[int], delays: str, reason: str) -> Call:
    """Return the call that settles messages of a lease by their indexes, the highest first."""
    keys, settings = engine.keys, engine.settings
    if verb in {REJECT, MOVE}:
        settings = settings._replace(max_deliveries=1)
        verb = "nack" if verb == REJECT else verb
    call = script(
        "leased/settle_some", keys, settings, lease=keys.lease(lease.id), settled=keys.settled(lease.id),
        done=keys.done(lease.id), lease_id=lease.id, token=token_of(lease), verb=verb, delays=delays, reason=reason,
        done_ttl_ms=engine.config.settled_ttl_ms if lease.named else 0,
        holds=0 if lease.state.joined else 1, indexes=indexes,
    )  # fmt: skip
    return confirming(engine, call) if verb == "ack" else call


def _refused(engine: LeasedEngine, lease: Lease, reply: bytes) -> Exception:
    if reply == b"lost":
        return engine.lost(lease)
    return ScriptFailed(f"settling lease {lease.id!r} got {reply.decode()!r}")


def delays_of(engine: LeasedEngine, lease: Lease, delay: timedelta | float | None) -> str:
    """Return how long nacked messages wait, as the scripts take it (see leased/include/nack_delays.lua).

    The scripts look up each message by its own deliveries, so the range covers those that are in memory. Where the
    messages are not, it covers the first 64; a message with more waits like one with 64.
    """
    if delay is not None:
        return f"1 {milliseconds('delay', delay)}"
    backoff = engine.config.backoff
    if backoff is None:
        return NOW
    present = lease.takeovers + 1
    least, most = present, present + _COVERED
    if lease.complete:
        counts = {stored_deliveries(envelope) for envelope in envelopes_of(lease)}
        least, most = present + min(counts), present + max(counts)
    covered = range(least, min(most + 1, least + _COVERED))
    return " ".join(map(str, [least, *(milliseconds("backoff", backoff.delay(count)) for count in covered)]))
