"""`SensorClaims`: what a claiming sensor holds for runs that have yet to start, and looks after in every tick.

A claim must not expire while its run waits in Dagster's queue: that would count a delivery which nobody made. Nor must
it wait for its expiry, which may be an hour away, when no run will ever take it.

A claim is named `<sensor>@<repository>@<code location>/<number>` and owned by what stands before the number, for other
code locations may have a sensor of the same name on the same queue.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress

import dagster as dg

from rmq_core import LeaseAlreadySettled, LeasedQueue, LeaseInfo, LeaseLost
from rmq_dagster.names import lease_name

WAITING = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.QUEUED)
LEASES_LOOKED_AT = 1000
RunOf = Callable[[str], dg.DagsterRun | None]


@dataclasses.dataclass(frozen=True)
class SensorClaims:
    """The claims of one sensor. `repository`: the label of where it is defined, None for a tick by hand."""

    sensor: str
    repository: str | None
    claim_for_s: float

    @property
    def owner(self) -> str:
        """Who owns them until a run has them."""
        return lease_name(f"{self.sensor}@{self.repository}") if self.repository else self.sensor

    def lease_id(self, number: int) -> str:
        """The lease that a tick takes for one request."""
        return f"{self.owner}/{number}"

    def has_named(self, lease: LeaseInfo) -> bool:
        """Whether a tick of this sensor claimed it, whoever holds it now; maybe one of before locations were named."""
        return number_of(lease.id) > 0 and owner_before(lease.id) in (self.owner, self.sensor)

    def claim(self, queue: LeasedQueue, number: int, batch: int) -> bool:
        """Claim under a name made of a number: a tick that is repeated finds its own lease again.

        False when nothing was left, or a run has it already.
        """
        lease_id = self.lease_id(number)
        info = queue.lease_info(lease_id)
        if queue.settled(lease_id) or (info and info.owner != self.owner):
            return False
        terms = {"lease": self.claim_for_s, "lease_id": lease_id, "owner": self.owner}
        return queue.claim(max_messages=batch, **terms) is not None  # type: ignore[arg-type]

    def look_after(self, queue: LeasedQueue, run_of: RunOf, *, last: int) -> None:
        """Hold on to what a run waits for, and give back, with no delivery counted, what none will come for.

        `run_of`: the latest run that was requested for a lease. `last`: the number of the last request that Dagster
        knows; a claim beyond it was made by a tick that Dagster gave up. Anything else is left to the run that is about
        to take it, or to its expiry: a run whose worker died may show as started for ever.
        """
        for lease in queue.leases(limit=LEASES_LOOKED_AT):
            if lease.owner in (self.owner, self.sensor):
                self._look_after(queue, lease, run_of(lease.id), last)

    def _look_after(self, queue: LeasedQueue, lease: LeaseInfo, run: dg.DagsterRun | None, last: int) -> None:
        # Under the former name it may be that of another code location: then only its run tells whose it is.
        ours = lease.owner == self.owner
        forsaken = run.is_finished if run else ours and number_of(lease.id) > last
        if not forsaken and not (run and run.status in WAITING):
            return
        with suppress(LeaseLost, LeaseAlreadySettled):  # a run has it by now
            # Adopting under the same owner counts no delivery.
            held = queue.adopt(lease.id, if_owner=lease.owner, lease=self.claim_for_s)
            if forsaken:
                queue.release(held)


def number_of(lease_id: str) -> int:
    """The number of the request for which a lease was taken; 0 for any other lease."""
    number = lease_id.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def owner_before(lease_id: str) -> str:
    """Who owns the lease of that id until a run has taken it, if a sensor took it for one."""
    return lease_id.rpartition("/")[0]
