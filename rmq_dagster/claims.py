"""`SensorClaims`: the claims that a sensor holds for runs that have yet to start. Every tick maintains them.

A claim must not expire while its run waits in Dagster's queue: that would count a delivery although no run received the
messages. A claim that no run will ever take must not wait for its expiry, which may be an hour away.

A claim is named `<sensor>@<repository>@<code location>/<number>`; its owner is the part before the number. Repository
and code location are included because other code locations may have a sensor of the same name on the same queue.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress

import dagster as dg

from rmq_core import LeaseAlreadySettled, LeasedQueue, LeaseLost
from rmq_core.reports import LeaseInfo
from rmq_dagster.names import lease_name

WAITING = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.QUEUED)
LEASES_LOOKED_AT = 1000
RunOf = Callable[[str], dg.DagsterRun | None]


@dataclasses.dataclass(frozen=True)
class SensorClaims:
    """The claims of one sensor. `repository`: the label of the place where it is defined; None for a tick by hand."""

    sensor: str
    repository: str | None
    claim_for_s: float

    @property
    def owner(self) -> str:
        """Return the owner of the claims until a run takes them over."""
        return lease_name(f"{self.sensor}@{self.repository}") if self.repository else self.sensor

    def lease_id(self, number: int) -> str:
        """Return the id of the lease that a tick claims for one request."""
        return f"{self.owner}/{number}"

    def has_named(self, lease: LeaseInfo) -> bool:
        """Return whether a tick of this sensor claimed the lease, no matter which run holds it now.

        Names of older releases, which lack the code location, match too.
        """
        return number_of(lease.id) > 0 and owner_before(lease.id) in (self.owner, self.sensor)

    def claim(self, queue: LeasedQueue, number: int, batch: int) -> bool:
        """Claim under a name derived from the request number, so that a repeated tick finds its own lease again.

        Return False when no message was left, or a run has the lease already.
        """
        lease_id = self.lease_id(number)
        info = queue.lease_info(lease_id)
        if queue.settled(lease_id) or (info and info.owner != self.owner):
            return False
        terms = {"lease": self.claim_for_s, "lease_id": lease_id, "owner": self.owner}
        return queue.claim(max_messages=batch, **terms) is not None  # type: ignore[arg-type]

    def look_after(self, queue: LeasedQueue, run_of: RunOf, *, last: int) -> None:
        """Extend the claims whose runs wait, and release, with no delivery counted, those that no run will take.

        `run_of`: returns the latest run that was requested for a lease. `last`: the number of the last request that
        Dagster knows; a claim with a higher number was made by a tick that Dagster abandoned. Every other claim is left
        to the run that is about to take it, or to its expiry: a run whose worker died may show as started for ever.
        """
        for lease in queue.admin.leases(limit=LEASES_LOOKED_AT):
            if lease.owner in (self.owner, self.sensor):
                self._look_after(queue, lease, run_of(lease.id), last)

    def _look_after(self, queue: LeasedQueue, lease: LeaseInfo, run: dg.DagsterRun | None, last: int) -> None:
        # A claim named without a code location may belong to another location's sensor; only its run shows that.
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
    """Return the number of the request for which a lease was taken; 0 for any other lease."""
    number = lease_id.rpartition("/")[2]
    return int(number) if number.isdecimal() else 0


def owner_before(lease_id: str) -> str:
    """Return the owner of a lease that a sensor claimed for a run, until that run takes it over."""
    return lease_id.rpartition("/")[0]
