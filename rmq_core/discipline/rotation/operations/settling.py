"""What ends the work on an id: it is marked as done, or given back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from rmq_core.discipline.rotation.config import DISCIPLINE
from rmq_core.discipline.rotation.engine import RotationEngine
from rmq_core.discipline.rotation.entries import id_bytes, new_entry, stamped_entry
from rmq_core.envelope import codec
from rmq_core.envelope.payloads import one_line
from rmq_core.errors import ScriptFailed
from rmq_core.exchange import Call, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.messages import Lease, token_of
from rmq_core.protocol import lacking
from rmq_core.queue.settle import Some, lost, outcomes_of, settle
from rmq_core.reports import Outcome, SettleReport

_LETTERS = {"s": Outcome.SETTLED, "l": Outcome.LOST}
_log = logging.getLogger("rmq")


def mark_done(engine: RotationEngine, message_id: str | bytes) -> Exchange[bool]:
    """Say that an id is done: nobody gets it again. False, and nothing changes, when it is not in progress.

    Whoever holds the id may say so, in time or late: the work is done either way.
    """
    letters = yield from _mark(engine, [id_bytes(message_id, engine.config.max_id_bytes)])
    return letters == "s"


def ack(engine: RotationEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Mark the ids of a lease as done, or some of them; also late, for the work is done.

    Raises LeaseLost when none of them is in progress any more, since somebody else has done them; reports it for some.
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
    """Make ids new again: the next pop gets them. A list of ids counts no deliveries and keeps no history.

    reason: goes to the log. Raises LeaseLost when one of a whole lease was popped by somebody else since, or is done;
    reports it for some messages. Raises Unsupported for a `delay`.
    """
    if delay is not None:
        raise lacking(DISCIPLINE, "delay")
    report = yield from _give_back(engine, lease, messages)
    if reason is not None:
        _log.warning("%d ids of queue %r were given back: %s", report.settled, engine.name, one_line(reason))
    return report


def release(engine: RotationEngine, lease: Lease, messages: Some | None = None) -> Exchange[SettleReport]:
    """Make ids new again: the next pop gets them. Raises LeaseLost for a whole lease, reports it for some messages."""
    return (yield from _give_back(engine, lease, messages))


def extend(engine: RotationEngine, lease: Lease, by: timedelta | float | None = None) -> Exchange[datetime | None]:
    """Raises Unsupported: a stamp says when an id was popped, and is not moved while somebody works."""
    del engine, lease, by
    yield from ()
    raise lacking(DISCIPLINE, "extend")


def _mark(engine: RotationEngine, ids: Sequence[bytes]) -> Exchange[str]:
    """One letter for each id."""
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
    return script("rotation/give_back", keys, bell=keys.bell, scope="whole" if whole else "some", entries=entries)


def _ids(lease: Lease) -> list[bytes]:
    return [codec.split(envelope).payload for envelope in lease.envelopes or ()]
