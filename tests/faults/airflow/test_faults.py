"""Airflow's parts die, Redis fails, tasks are cleared: no message is lost, and no stale holder settles one."""

from __future__ import annotations

import pytest

from tests.faults import report
from tests.faults.airflow.faults import FAULTS, Fault
from tests.faults.airflow.rounds import play
from tests.faults.airflow.scene import KEY, LEASE_S, STATES, TOTAL, ZEROS, World

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly("airflow/test_consume.py::test_the_retry_of_a_sigkilled_try_processes_its_messages"),
]
HEAD = f"""# Faults in Airflow

What faults cost a pipeline, counted on a real Airflow: scheduler with LocalExecutor, DAG processor, triggerer and API
server on PostgreSQL, driven by REST, with a real Spark in client mode. Made by `make faults`; do not edit.

Four runs meet each fault at once. Each has {TOTAL} messages under leases of {LEASE_S} s. A **sensor is
deferred** and waits for one message more. A **consumer** has acked some of its messages and works on another. A **Spark
driver** has adopted its messages, and its executors work on them. A **hand-over is pending**: the sensor has claimed,
and the task that will adopt the lease waits for another task. Tasks retry after 5 s; Airflow takes a task for dead
after 20 s without a heartbeat.
"""
FOUND = "\n".join(f"- **{fault.name}**: {fault.befall.__doc__}" for fault in FAULTS)
PAGE = report.page("airflow-faults", HEAD, f"{KEY}\n{FOUND}\n", ZEROS, column="state")


def test_a_fault_loses_nothing_and_leaves_nothing_behind(deployed: World, faults: tuple[Fault, ...]) -> None:
    costs = play(deployed, faults)
    for fault in faults:
        found = costs[fault.name]
        PAGE.cells += [report.Cell(fault.name, STATES[state], count.shown()) for state, count in found.items()]
        PAGE.cells += [report.Cell(fault.name, STATES[state], reason=why) for state, why in fault.impossible.items()]
    for fault in faults:
        for state, count in costs[fault.name].items():
            where = f"{fault.name}, {state}: {count}"
            assert {name: getattr(count, name) for name in ZEROS} == dict.fromkeys(ZEROS, 0), where
            assert count.ended == ("failed" if state in fault.fatal else "success"), where
