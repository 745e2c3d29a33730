"""The page of faults in Dagster, which the tests of this folder fill."""

from __future__ import annotations

from tests.faults import report
from tests.faults.dagster.scene import GONE_S, LEFT, LOST, STALE, STUCK, STUCK_S
from tests.faults.dagster.ways import LEASE_S

HEAD = f"""# Faults in Dagster

What faults did to the runs of a real `dagster dev`: webserver, daemon and code server on PostgreSQL, a Redis that has
on disk what it acknowledges, leases of {LEASE_S} seconds. Made by `make faults`; do not edit.

Each fault befell four ways of working at once, each with queues of its own: runs that a **doorbell** asks for, the same
by **partition**, runs for which the sensor's tick has claimed (**claim**), and runs that hand their lease to a Spark
driver (**Pipes Spark**). **✓**: nothing was lost, settled by a stale holder, stuck or left running. No fault is
impossible for any of them: Pipes Spark is rung for by a sensor, and a claim is taken by a run like any other.
"""
KEY = f"""- **messages**: published before the fault and, where it strikes sensors or Redis, again during it.
- **runs for nothing**: found nothing left to claim, and succeeded. A doorbell names no message; these do no harm.
- **worked on again**: deliveries beyond the first. The work of a run that was killed is done once more.
- **settles refused**: tried by a holder that had lost its lease. **stale settles**: such ones that were not refused.
- **runs written off**: runs of which nobody tells Dagster that their workers are gone show as started until somebody
  cancels them by force. Their messages do not wait for that.
- **stuck**: no run was on its way for them or at work on them for longer than the lease and {STUCK_S - LEASE_S} s.
- **drivers left**: drivers that outlived their lease and their run by {GONE_S} s.
- **seconds**: from the end of the fault until everything was acked. Most of it is Dagster's, which starts a process for
  each run; on a busy machine that takes minutes.
"""
PAGE = report.page("dagster-faults", HEAD, KEY, (LOST, STALE, STUCK, LEFT))
