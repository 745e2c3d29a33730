"""What a claiming sensor holds for runs that have yet to start, and looks after in every tick.

A claim must not expire while its run waits in Dagster's queue: that would count a delivery which nobody made. Nor must
it wait for its expiry, which may be an hour away, when no run will ever take it.
"""

from __future__ import annotations

from collections.abc import Callable

import dagster as dg

from rmq_core import LeaseAlreadySettled, LeasedQueue, LeaseLost

WAITING = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.QUEUED)
LEASES_LOOKED_AT = 1000
RunOf = Callable[[str], dg.DagsterRun | None]


def look_after(queue: LeasedQueue, sensor: str, run_of: RunOf, *, last: int, claim_for_s: float) -> None:
    """Hold on to what a run waits for, and give back, with no delivery counted, what none will come for.

    `run_of`: the latest run that was requested for a lease. `last`: the number of the last request that Dagster knows;
    a claim beyond it was made by a tick that Dagster gave up. Anything else is left to the run that is about to take
    it, or to its expiry: a run whose worker died may show as started for ever.
    """
    for lease in queue.leases(limit=LEASES_LOOKED_AT):
        if lease.owner != sensor:
            continue
        run = run_of(lease.id)
        forsaken = run.is_finished if run else number_of(lease.id) > last
        if forsaken or (run and run.status in WAITING):
            _decide(queue, lease.id, sensor, claim_for_s, forsaken=forsaken)


def _decide(queue: LeasedQueue, lease_id: str, sensor: str, claim_for_s: float, *, forsaken: bool) -> None:
    try:
        # Adopting under the same owner counts no delivery.
        held = queue.adopt(lease_id, if_owner=sensor, lease=claim_for_s)
        if forsaken:
            queue.release(held)
    except (LeaseLost, LeaseAlreadySettled):
        pass  # a run has it by now


def name_of(sensor: str, number: int) -> str:
    """The id of the lease that a claiming sensor takes for one request."""
    return f"{sensor}/{number}"


def number_of(lease_id: str) -> int:
    """The number of the request for which a lease was taken; 0 for any other lease."""
    number = lease_id.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0
