"""Adopt a lease by its id alone, in another process or after a lost reply; join a lease that another process holds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations.claiming import deadline_of, owner_of, taken_over
from rmq_core.discipline.leased.operations.reclaiming import reclaim
from rmq_core.envelope.ids import nonce
from rmq_core.errors import LeaseAlreadySettled, LeaseLost, LeaseOwnedByOther
from rmq_core.exchange import Call, Encodable, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.messages import Lease
from rmq_core.queue.keys import check_name


def adopt(
    engine: LeasedEngine,
    lease_id: str,
    *,
    owner: str | None = None,
    if_owner: str | None = None,
    lease: timedelta | float | None = None,
) -> Exchange[Lease]:
    """Take a lease over by its id alone; its former holder is fenced off.

    owner: the new owner; None keeps the recorded one. When the owner stays the same, this is a hand-over and counts no
    delivery. if_owner: adopt it only when this owner holds it, else raise LeaseOwnedByOther. Raises LeaseLost when no
    lease has this id or its deliveries are used up, LeaseAlreadySettled when it was acked as a whole.
    """
    handed = owner is None or owner == if_owner
    return (yield from seize(engine, lease_id, owner, if_owner, lease, event="handed over" if handed else "taken over"))


def seize(
    engine: LeasedEngine,
    lease_id: str,
    owner: str | None,
    if_owner: str | None,
    lease: timedelta | float | None = None,
    *,
    event: str = "",
) -> Exchange[Lease]:
    """Adopt a lease; `event` is what the journal calls that, and no takeover is emitted without one."""
    new, expected = owner_of("owner", owner), owner_of("if_owner", if_owner)
    lease_ms, name = engine.lease_ms(lease), check_name("lease_id", lease_id)
    secret = engine.unanswered.get(name) or nonce()
    reply = yield _adoption(
        engine, name, nonce=secret, lease_ms=lease_ms, set_owner=_flag(owner), owner=new,
        required=_flag(if_owner), required_owner=expected,
    )  # fmt: skip
    verdict, _, rest = reply.decode().partition(" ")
    if verdict != "owned":
        engine.unanswered.pop(name, None)
    if verdict == "taken":
        return taken_over(engine, lease_id, rest, event)
    if verdict == "settled":
        raise LeaseAlreadySettled(lease_id, int(rest.split(" ")[0]))
    if verdict == "owned":
        raise LeaseOwnedByOther(lease_id, f"it is owned by {rest!r}, not by {if_owner!r}")
    if verdict == "exhausted":
        yield from reclaim(engine, lease_id, used_up=True)
        raise LeaseLost(lease_id, "its deliveries are used up")
    raise LeaseLost(lease_id, "there is no lease of this id")


def join(engine: LeasedEngine, lease_id: str) -> Exchange[Lease]:
    """Return a lease with its holder's token, for a process that works for the holder; the holder keeps the lease.

    The caller must make sure that it settles messages only on behalf of the holder. Only the holder ends the
    lease, even when none of its messages is left. Raises LeaseLost when no lease has this id.
    """
    name = check_name("lease_id", lease_id)
    reply = yield script("leased/join", engine.keys, lease=engine.keys.lease(name), lease_id=name)
    if reply is None:
        raise LeaseLost(lease_id, "there is no lease of this id")
    token, takeovers, owner, count, deadline = reply
    lease = Lease(
        engine.keys.name, lease_id, owner.decode(), count, deadline_of(deadline.decode()), token.decode(), takeovers,
        named=not lease_id.startswith("~"),
    )  # fmt: skip
    lease.state.joined = True
    return lease


def reenter(engine: LeasedEngine, lease_id: str) -> Exchange[Lease | None]:
    """Adopt the lease of an unanswered claim; return None when it was not granted or another consumer holds it now."""
    secret = engine.unanswered[lease_id]
    reply = yield _adoption(
        engine, lease_id, nonce=secret, lease_ms=engine.lease_ms(None), set_owner="0", owner="",
        required="2", required_owner="",
    )  # fmt: skip
    verdict, _, rest = reply.decode().partition(" ")
    return taken_over(engine, lease_id, rest) if verdict == "taken" else None


def _adoption(engine: LeasedEngine, lease_id: str, **given: Encodable) -> Call:
    keys = engine.keys
    return script(
        "leased/adopt", keys, engine.settings, lease=keys.lease(lease_id), settled=keys.settled(lease_id),
        done=keys.done(lease_id), lease_id=lease_id, **given,
    )  # fmt: skip


def _flag(value: Any) -> str:
    return "0" if value is None else "1"
