"""Ack, nack, release or extend the messages that a worker holds. The token of the claim fences all of these."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from rmq_core.envelope.payloads import one_line
from rmq_core.exchange import Call, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel import settling
from rmq_core.messages import Lease, token_of
from rmq_core.policy import milliseconds, seconds
from rmq_core.protocol import lacking
from rmq_core.reliable.claiming import release_unanswered
from rmq_core.reliable.state import DISCIPLINE, ReliableEngine
from rmq_core.reports import Outcome, SettleReport

_HEAD, _ID = re.compile(rb"\d+ \d+ (\d+) "), re.compile(rb"(\S+) ")
_LETTERS = {"s": Outcome.SETTLED, "d": Outcome.DEAD, "m": Outcome.MISSING, "l": Outcome.LOST}


def ack(engine: ReliableEngine, lease: Lease, messages: settling.Some | None = None) -> Exchange[SettleReport]:
    """Remove finished messages from the processing list.

    When the lease is lost, acking the whole lease raises LeaseLost; acking some messages reports it as their outcome.
    """
    return (yield from _settle(engine, lease, "ack", messages))


def nack(
    engine: ReliableEngine,
    lease: Lease,
    messages: settling.Some | None = None,
    *,
    delay: timedelta | float | None = None,
    reason: str | None = None,
) -> Exchange[SettleReport]:
    """Requeue messages as failed: the delivery counts; after `max_deliveries` failures they become dead letters.

    reason: its first 200 characters are kept in the message's history. When the lease is lost, nacking the whole lease
    raises LeaseLost; nacking some messages reports it as their outcome. Raises Unsupported for a `delay`.
    """
    if delay is not None:
        raise lacking(DISCIPLINE, "delay")
    return (yield from _settle(engine, lease, "nack", messages, one_line(reason)))


def release(engine: ReliableEngine, lease: Lease, messages: settling.Some | None = None) -> Exchange[SettleReport]:
    """Requeue messages without counting a delivery.

    When the lease is lost, releasing the whole lease raises LeaseLost; releasing some messages reports it as their
    outcome.
    """
    return (yield from _settle(engine, lease, "release", messages))


def extend(engine: ReliableEngine, lease: Lease, by: timedelta | float | None = None) -> Exchange[datetime | None]:
    """Hold the messages until `by` from now, never for a shorter time than before; no reaper requeues them until then.

    by: seconds or timedelta; None is the queue's timeout. Returns the time until which they are held. Raises LeaseLost.
    """
    return settling.deadline_of(lease, (yield _extension(engine, lease, by)))


def extend_all(engine: ReliableEngine, leases: Sequence[tuple[Lease, float | None]]) -> Exchange[list[bool]]:
    """Extend many leases in one write; return True for each that is extended, False for each that is lost."""
    return (yield from settling.extend_each(_extension(engine, lease, by) for lease, by in leases))


def leave(engine: ReliableEngine) -> Exchange[None]:
    """Release the messages of claims whose reply never arrived."""
    for lease in (yield from release_unanswered(engine)):
        yield _settlement(engine, lease, "release", range(lease.count), whole=False)


def _settle(
    engine: ReliableEngine, lease: Lease, verb: str, messages: settling.Some | None, reason: str = ""
) -> Exchange[SettleReport]:
    def send(places: list[int]) -> Exchange[list[Outcome]]:
        reply = yield _settlement(engine, lease, verb, places, whole=messages is None, reason=reason)
        return settling.outcomes_of(lease, settling.reported_in(engine, reply)[0], len(places), _LETTERS)

    return (yield from settling.settle(engine.name, lease, messages, send))


def _settlement(
    engine: ReliableEngine, lease: Lease, verb: str, places: Sequence[int], *, whole: bool, reason: str = ""
) -> Call:
    keys, config, entries = engine.keys, engine.config, lease.envelopes or ()
    return script(
        "reliable/settle", keys, processing=keys.processing(lease.owner), claims=keys.claims(lease.owner),
        token=token_of(lease), verb=verb, scope="whole" if whole else "some", worker=lease.owner, reason=reason,
        max_deliveries=config.max_deliveries or 0, max_dead=config.max_dead,
        entries=[entries[place] for place in places],
    )  # fmt: skip


def _extension(engine: ReliableEngine, lease: Lease, by: timedelta | float | None) -> Call:
    settling.check_queue(engine.name, lease)
    by_ms = milliseconds("by", seconds("by", engine.config.timeout if by is None else by, minimum=0.001))
    entries = lease.envelopes or ()
    ids = [_id_of(entries[place]) for place in settling.open_places(lease)]
    return script(
        "reliable/extend", claims=engine.keys.claims(lease.owner), token=token_of(lease), lease_ms=by_ms,
        timeout_ms=engine.config.timeout_ms, ids=ids,
    )  # fmt: skip


def _id_of(entry: bytes) -> bytes:
    """Return the id under which the scripts store the claim of an entry: the entry itself if it is no envelope."""
    head = _HEAD.match(entry)
    found = _ID.match(entry, head.end() + int(head[1])) if head else None
    return found[1] if found else entry
