"""End the work on an id: mark it as done, or make it new again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from rmq_core.envelope import codec
from rmq_core.envelope.payloads import one_line
from rmq_core.errors import ScriptFailed
from rmq_core.exchange import Call, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.settling import Some, lost, outcomes_of, settle
from rmq_core.messages import Lease, token_of
from rmq_core.protocol import lacking
from rmq_core.reports import Outcome, SettleReport
from rmq_core.rotation.state import DISCIPLINE, RotationEngine, id_bytes, new_entry, stamped_entry

_LETTERS = {"s": Outcome.SETTLED, "l": Outcome.LOST}
_log = logging.getLogger("rmq")


def mark_done(engine: RotationEngine, message_id: str | bytes) -> Exchange[bool]:
    """Mark an id as done: it is not handed out again. Return False and change nothing when it is not in progress.

    Any process that got the id may call this, in time or late, because the work is done either way.
    """
    letters = yield from _mark(engine, [id_bytes(message_id, engine.config)])
    return letters == "s"


def ack(engine: RotationEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Mark the ids of a lease, or some of them, as done, even when they are late.

    Acking the whole lease raises LeaseLost when none of its ids is in progress any more, because other consumers have
    marked them as done. Acking some ids reports such ids as lost instead.
    """
    ids = _ids(lease)

    def send(places: list[int]) -> Exchange[list[Outcome]]:
        letters = yield from _mark(engine, [ids[place] for place in places])
        if messages is None and "s" not in letters:
            raise lost(lease)
        return [_LETTERS[letter] for letter in letters]

    return (yield from settle(engine.name, lease, messages, send))


def nack(
    engine: RotationEngine,
    lease: Lease,
    messages: Some | None = None,
    *,
    delay: timedelta | float | None = None,
    reason: str | None = None,
) -> Exchange[SettleReport]:
    """Make ids new again: the next pop returns them. The queue holds only ids, no delivery counts or history.

    reason: is logged. Nacking the whole lease raises LeaseLost when one of its ids is done or another consumer has
    popped it since; nacking some ids reports such ids as lost. Raises Unsupported for a `delay`.
    """
    if delay is not None:
        raise lacking(DISCIPLINE, "delay")
    report = yield from _give_back(engine, lease, messages)
    if reason is not None:
        _log.warning("%d ids of queue %r were nacked: %s", report.settled, engine.name, one_line(reason))
    return report


def release(engine: RotationEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Make ids new again: the next pop returns them.

    Releasing the whole lease raises LeaseLost when one of its ids is done or another consumer has popped it since;
    releasing some ids reports such ids as lost.
    """
    return (yield from _give_back(engine, lease, messages))


def extend(engine: RotationEngine, lease: Lease, by: timedelta | float | None = None) -> Exchange[datetime | None]:
    """Raise Unsupported: a stamp records when an id was popped, and cannot be extended."""
    del engine, lease, by
    yield from ()
    raise lacking(DISCIPLINE, "extend")


def _mark(engine: RotationEngine, ids: Sequence[bytes]) -> Exchange[str]:
    """Mark ids as done; return one letter for each."""
    reply = yield script("rotation/mark_done", engine.keys, ids=ids)
    if not reply.startswith(b"marked "):
        raise ScriptFailed(f"mark_done got {reply.decode()!r}")
    letters: str = reply[7:].decode()
    return letters


def _give_back(engine: RotationEngine, lease: Lease, messages: Some | None) -> Exchange[SettleReport]:
    def send(places: list[int]) -> Exchange[list[Outcome]]:
        reply = yield _returning(engine, lease, places, whole=messages is None)
        return outcomes_of(lease, reply, len(places), _LETTERS)

    return (yield from settle(engine.name, lease, messages, send))


def _returning(engine: RotationEngine, lease: Lease, places: Sequence[int], *, whole: bool) -> Call:
    keys, ids, stamp = engine.keys, _ids(lease), token_of(lease)
    entries = [entry for place in places for entry in (stamped_entry(ids[place], stamp), new_entry(ids[place]))]
    return script("rotation/give_back", keys, scope="whole" if whole else "some", entries=entries)


def _ids(lease: Lease) -> list[bytes]:
    return [codec.split(envelope).payload for envelope in lease.envelopes or ()]
