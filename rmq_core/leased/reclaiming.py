"""Reclaim leases that were not settled in time: requeue their messages and count the delivery."""

from __future__ import annotations

from rmq_core.envelope.codec import nonce
from rmq_core.events import Operation
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.settings import fresh
from rmq_core.kernel.settling import Reclaimed, without_report
from rmq_core.leased.state import LeasedEngine


def reclaim(engine: LeasedEngine, lease_id: str, *, used_up: bool = False) -> Exchange[int]:
    """Reclaim an expired lease, chunk by chunk; return the number of messages moved, 0 when it has not expired.

    used_up: also reclaim a lease whose deliveries are used up. If a process stops halfway, the next process that finds
    the lease reclaims the rest.
    """
    done = yield from reclaim_lease(engine, lease_id, "1" if used_up else "0")
    return done.settled


def reclaim_lease(
    engine: LeasedEngine, lease_id: str, when: str, reason: str = "", token: str = "", **required: str
) -> Exchange[Reclaimed]:
    """Reclaim a lease; the arguments are those of the script, `required` has `only_of` and `generation`."""
    keys, done = engine.keys, Reclaimed()
    yield from fresh(engine)
    while True:
        reply = yield script(
            "leased/reclaim", keys, engine.settings, lease=keys.lease(lease_id), settled=keys.settled(lease_id),
            lease_id=lease_id, token=token, nonce=nonce(), reason=reason,
            if_used_up=when, **required,
        )  # fmt: skip
        words = without_report(engine, reply).decode().split(" ")
        if words[0] == "owned":
            return done._replace(owner=reply.decode().partition(" ")[2])
        if words[0] != "returned":
            return done
        moved, left, token = int(words[1]), int(words[2]), words[3]
        engine.state(Operation.RECLAIM, moved, lease_id, reason=reason or None)
        state_dead(engine, lease_id, words[4:], reason or "expired")
        done = Reclaimed(done.settled + moved, done.dead + len(words[4:]), found=True)
        if not left:
            return done


def state_dead(engine: LeasedEngine, lease_id: str | None, message_ids: list[str], reason: str | None) -> None:
    for message_id in message_ids:
        engine.state(Operation.DEAD, 1, lease_id, message_id=message_id, reason=reason)
