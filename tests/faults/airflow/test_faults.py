"""Airflow's parts die, Redis fails, tasks are cleared: no message is lost, and no stale holder settles one."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.faults.airflow.faults import Fault
from tests.faults.airflow.report import RECORD
from tests.faults.airflow.rounds import play
from tests.faults.airflow.scene import World

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly("airflow/test_consume.py::test_the_retry_of_a_sigkilled_try_processes_its_messages"),
]
NEVER = {"lost": 0, "doubled": 0, "stale": 0, "stuck": 0, "survivors": 0}


def test_a_fault_loses_nothing_and_leaves_nothing_behind(
    deployed: World, faults: tuple[Fault, ...], record_property: Callable[[str, object], None]
) -> None:
    started = time.monotonic()
    costs = play(deployed, faults)
    for fault, counts in costs.items():
        plain = {state: tuple(count) for state, count in counts.items()}
        record_property(RECORD, (fault, plain, time.monotonic() - started))
    for fault in faults:
        for state, count in costs[fault.name].items():
            where = f"{fault.name}, {state}: {count}"
            assert {name: getattr(count, name) for name in NEVER} == NEVER, where
            assert count.ended == ("failed" if state in fault.fatal else "success"), where
