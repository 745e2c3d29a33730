"""The table of situations, which the tests of this folder fill."""

from __future__ import annotations

from tests.faults import report
from tests.faults.situations.situations import A_TIME, BETWEEN_KILLS_S, DOUBLED, EVERY_S, LOST, PATIENCE_S, STALE, STUCK
from tests.faults.situations.work import BATCH, LEASE_S, WORK_S

HEAD = f"""# The same situations in Airflow and in Dagster

A real Airflow (LocalExecutor, scheduler, triggerer, DAG processor, API server) and a real Dagster (code server, daemon,
webserver, a process for each run), each on a PostgreSQL of its own, and a Redis that has on disk what it acknowledges.
The doorbells of both packages start the runs, with their defaults. Made by `make faults`; do not edit.

A message takes {WORK_S} s of work, a run works on batch after batch of at most {BATCH}, a lease lasts {LEASE_S} s. Live
work is {A_TIME} messages every {EVERY_S} s. Kills come {BETWEEN_KILLS_S[0]} to {BETWEEN_KILLS_S[1]} s after each other:
a process at work, the scheduler or daemon, all connections to Redis, in random order. **✓**: nothing was lost, settled
by a stale holder or stuck, and no effect was duplicated.
"""
KEY = f"""- **{LOST}**: without an effect, or dead though not poison. **{STALE}**: acks of a holder that had lost
  its lease, and second acks, that were accepted. **{STUCK}**: still ready, delayed or leased {PATIENCE_S} s later.
- **{DOUBLED}**: effects beyond the first of a message, in a sink that is keyed by the message's id.
- **worked on again**: deliveries beyond the first; a sink without keys would have so many duplicates.
- **found nothing**: runs, and tasks of a fan-out, that succeeded without a message. A doorbell names no message.
- **left open**: runs that were shown as running though nothing worked on them, until somebody ended them by force.
- **p50**, **p99**: from publish until the work on the message began, for the messages that had an effect.
- **s until settled**: after the last message and the last kill.
"""
PAGE = report.page("situations", HEAD, KEY, (LOST, STALE, STUCK, DOUBLED), row="situation", column="package")
