"""Operations for operators on one lease or message: expire a lease, run a delayed message now, edit a dead letter."""

from __future__ import annotations

from collections.abc import Mapping

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations.claiming import owner_of
from rmq_core.discipline.leased.operations.managing import checked_id, find
from rmq_core.discipline.leased.operations.reclaiming import reclaim_lease
from rmq_core.discipline.leased.operations.selecting import number
from rmq_core.envelope import codec
from rmq_core.envelope.codec import Payload
from rmq_core.envelope.payloads import encode_headers, encode_payload, one_line
from rmq_core.errors import ConfigurationError
from rmq_core.events import Operation
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.observe.fact import Act
from rmq_core.queue.keys import check_name
from rmq_core.queue.settle import expired
from rmq_core.reports import SettleReport


def expire_lease(
    engine: LeasedEngine, lease_id: str, *, if_owner: str | None = None, reason: str | None = None
) -> Exchange[SettleReport]:
    """Reclaim a lease by its id alone, as if its deadline had passed; a delivery is counted.

    Use it when the holder is known to have crashed, `release_lease` when it was stopped on purpose. The holder is
    fenced off. The report says how many messages went back, and how many of them are dead letters now. if_owner: only
    when this owner holds it, else raise LeaseOwnedByOther. reason: for the history of the messages. Raises LeaseLost
    when there is no such lease, LeaseAlreadySettled when it was acked as a whole.
    """
    name = check_name("lease_id", lease_id)
    required = {} if if_owner is None else {"only_of": owner_of("if_owner", if_owner)}
    done = yield from reclaim_lease(engine, name, "2", one_line(reason or ""), **required)
    return (yield from expired(done, lease_id, if_owner, engine.keys.done(name)))


def run_now(engine: LeasedEngine, message_id: str) -> Exchange[bool]:
    """End the delay of a message, so that it is ready now; return False when no delayed message has this id."""
    keys, wanted = engine.keys, frozenset([checked_id(message_id)])
    found = yield from find(keys.delayed, wanted)
    if not found:
        return False
    reply = yield script("leased/run_now", keys, bell=keys.bell, message=found[message_id])
    moved = number(reply, b"ready ")
    engine.state(Act.RUN_NOW, moved, ids=[message_id])
    return bool(moved)


def edit(
    engine: LeasedEngine,
    message_id: str,
    payload: Payload | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    by: str = "",
) -> Exchange[bool]:
    """Redrive a dead letter with another payload or other headers, under the same id; return False if there is none.

    None keeps the payload, or the headers; {} removes all headers. One atomic step replaces the dead letter by the
    message. Its history stays, with a line of the kind `edited` that names what was changed, and `by` as its owner.
    Raises PayloadError for what cannot be stored, QueueFull when the server has no memory for it.
    """
    if payload is None and headers is None:
        raise ConfigurationError("payload or headers must be given: redrive_some redrives a dead letter as it is")
    keys, wanted, who = engine.keys, frozenset([checked_id(message_id)]), owner_of("by", by)
    config = engine.config
    new = None if payload is None else encode_payload(payload, config)
    named = None if headers is None else encode_headers(headers)
    found = yield from find(keys.dead, wanted, grows_left=True)
    if not found:
        return False
    own = codec.split(found[message_id])
    kind, data = new or (own.kind, own.payload)
    body = codec.body(own.id, kind, data, own.headers if named is None else named)
    what = " and ".join(part for part, given in (("payload", payload), ("headers", headers)) if given is not None)
    reply = yield script(
        "leased/redrive_edited", keys, bell=keys.bell, letter=found[message_id], new_body=body, owner=who,
        reason=one_line(what),
    )  # fmt: skip
    moved = number(reply, b"redriven ")
    engine.state(Operation.REDRIVE, moved, message_id=message_id)
    engine.state(Act.EDIT, moved, ids=[message_id], by=who, reason=what)
    return bool(moved)
