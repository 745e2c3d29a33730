"""Reclaims expired leases: every client does so in the course of its other operations."""

from __future__ import annotations

from rmq_core.discipline.jobs.engine import JobsEngine, refused
from rmq_core.envelope.ids import nonce
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script


def reclaim(engine: JobsEngine, lease_id: str, *, used_up: bool = False) -> Exchange[int]:
    """Reclaim the jobs of a lease that has expired, or whose attempts are `used_up`. Return how many."""
    keys, config, moved, token = engine.keys, engine.config, 0, ""
    while True:
        reply = yield script(
            "jobs/reclaim", keys, lease=keys.lease(lease_id), lease_id=lease_id, nonce=nonce(),
            max_attempts=config.max_attempts, max_dead=config.max_dead, events_cap=config.max_events,
            if_used_up="1" if used_up else "0", earlier_token=token,
        )  # fmt: skip
        if reply == b"live":
            return moved
        words = reply.decode().split(" ")
        if words[0] != "returned":
            raise refused("reclaim", reply)
        moved, token = moved + int(words[1]), words[4]
        if words[3] == "0":
            return moved


def reclaim_all(engine: JobsEngine, late: list[bytes]) -> Exchange[int]:
    """Reclaim every lease of the list that has expired. Return the number of jobs."""
    moved = 0
    for lease_id in late:
        moved += yield from reclaim(engine, lease_id.decode())
    return moved
