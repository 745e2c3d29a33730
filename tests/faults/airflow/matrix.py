"""The matrix of what faults cost, as Markdown: its table is printed after the tests, it is kept as a reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.faults.airflow.faults import FAULTS, Fault
from tests.faults.airflow.scene import LEASE_S, STATES, STUCK_S, TOTAL

COLUMNS = "lost", "processed twice", "doubled effects", "stale settles", "stuck", "surviving drivers", "run", "tries"
HEAD = f"""# Faults in Airflow

What faults cost a pipeline, counted on a real Airflow: scheduler with LocalExecutor, DAG processor, triggerer and API
server on PostgreSQL, driven by REST, with a real Spark in client mode. Made by `make faults`; do not edit.

Each fault befalls four runs at once, each with {TOTAL} messages of its own under leases of {LEASE_S} s. A **sensor is
deferred** and waits for one message more. A **consumer** has acked some of its messages and works on another. A **Spark
driver** has adopted its messages, and its executors work on them. A **hand-over is pending**: the sensor has claimed,
and the task that will adopt the lease waits for another task. Tasks retry after 5 s; Airflow takes a task for dead
after 20 s without a heartbeat.

- **lost**: messages that had no effect and are not in the queue either.
- **processed twice**: second deliveries of a message; delivery is at least once, so a holder that dies costs some.
- **doubled effects**: rows too many in a sink that is keyed by the message's id.
- **stale settles**: acks that were accepted from somebody who no longer held the message.
- **stuck**: messages under a lease that nobody works on, and tasks that only seem to run, {STUCK_S} s after the fault.
- **surviving drivers**: processes of Spark that outlived their task.
- **run**, **tries**: how the run ended, and in which try the task that was hit.
"""


class Matrix:
    """The counts of each state and the seconds of each round are in `played`, by the name of the fault."""

    def __init__(self, played: Mapping[str, tuple[Mapping[str, Sequence[object]], float]]) -> None:
        self.played = played

    def complete(self) -> bool:
        """Return whether every fault was played."""
        return all(fault.name in self.played for fault in FAULTS)

    def report(self) -> str:
        """Return the whole page."""
        longest = f"The longest round took {max(seconds for _, seconds in self.played.values()):.0f} s."
        faults = [f"- **{fault.name}**: {fault.befall.__doc__}" for fault in FAULTS]
        return "\n".join([HEAD, *self.table(), "", longest, "", "## The faults", "", *faults, ""])

    def table(self) -> Iterator[str]:
        """Return a line for each fault that was played and each state."""
        yield f"| fault | state | {' | '.join(COLUMNS)} |"
        yield f"|---|---|{'---:|' * 6}---|---:|"
        for fault in FAULTS:
            if fault.name in self.played:
                yield from (self._line(fault, state) for state in STATES)

    def _line(self, fault: Fault, state: str) -> str:
        cells: Sequence[object] = [f"n/a: {fault.impossible.get(state)}", *[""] * 7]
        if state not in fault.impossible:
            cells = self.played[fault.name][0][state]
        return f"| {' | '.join(map(str, (fault.name, STATES[state], *cells)))} |"
