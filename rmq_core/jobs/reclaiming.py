"""Reclaims expired leases: every client does so in the course of its other operations."""

from __future__ import annotations

from rmq_core.envelope.codec import nonce
from rmq_core.events import Operation
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.jobs.state import GROUP, JobsEngine, check_text, refused
from rmq_core.kernel.keys import check_name
from rmq_core.kernel.settling import Reclaimed, cause_of, expired, without_report
from rmq_core.reports import SettleReport


def reclaim(engine: JobsEngine, lease_id: str, *, used_up: bool = False) -> Exchange[int]:
    """Reclaim the jobs of a lease that has expired, or whose attempts are `used_up`. Return how many."""
    done = yield from _reclaimed(engine, lease_id, "1" if used_up else "0")
    return done.settled


def expire_lease(
    engine: JobsEngine, lease_id: str, *, if_owner: str | None = None, reason: str | None = None
) -> Exchange[SettleReport]:
    """Reclaim a lease by its id alone, as if its deadline had passed; an attempt is counted.

    The holder is fenced off. The report says how many jobs went back, and how many of them are dead letters now.
    if_owner: only when this owner holds it, else raise LeaseOwnedByOther. reason: for the history of the jobs, which
    else names who did it. Raises LeaseLost when there is no such lease, LeaseAlreadySettled when it was acked as a
    whole. Workers hold jobs without a lease.
    """
    name = check_name("lease_id", lease_id)
    required = {} if if_owner is None else {"only_of": check_text("if_owner", if_owner)}
    done = yield from _reclaimed(engine, name, "1", cause_of(reason), **required)
    return (yield from expired(done, lease_id, if_owner, engine.keys.done(name)))


def _reclaimed(engine: JobsEngine, lease_id: str, early: str, reason: str = "", **required: str) -> Exchange[Reclaimed]:
    keys, token, done = engine.keys, "", Reclaimed()
    while True:
        reply = yield script(
            "jobs/reclaim", keys, engine.settings, lease=keys.lease(lease_id), lease_id=lease_id, nonce=nonce(),
            if_used_up=early, earlier_token=token, reason=reason, group=GROUP, **required,
        )  # fmt: skip
        words = without_report(engine, reply).decode().split(" ")
        if words[0] == "owned":
            return done._replace(owner=reply.decode().partition(" ")[2])
        if reply == b"live":
            return done
        if words[0] != "returned":
            raise refused("reclaim", reply)
        engine.state(Operation.RECLAIM, int(words[1]))
        engine.state(Operation.DEAD, int(words[2]))
        done, token = Reclaimed(done.settled + int(words[1]), done.dead + int(words[2]), found=True), words[4]
        if words[3] == "0":
            return done


def reclaim_all(engine: JobsEngine, late: list[bytes]) -> Exchange[int]:
    """Reclaim every lease of the list that has expired. Return the number of jobs."""
    moved = 0
    for lease_id in late:
        moved += yield from reclaim(engine, lease_id.decode())
    return moved
