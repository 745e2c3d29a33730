"""Runs that are deleted and created again under the same name, and runs that are cleared."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import psutil
import pytest

from rmq_core import LeasedQueue
from tests.faults import report
from tests.faults.airflow.ledger import Ledger
from tests.faults.airflow.scene import PATIENCE_S, World
from tests.servers.process import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly(
        "airflow/test_recreated.py::test_a_new_run_claims_ready_messages_after_a_former_run_of_its_name_was_settled"
    ),
]
BATCH = 5
SCHEDULER_S = 5.0
AT_ONCE = 8  # runs; with many more, PostgreSQL has no connection left for the API server
ENDED = ("success", "failed")
HEAD = f"""# Repeated runs in Airflow

A run works on {BATCH} messages. It **settled** them, and {BATCH} others are published; or it **kept** them under a
lease of an hour, for a retry that comes in half an hour, as it failed, was killed, or claimed for a task that never
adopted. Then people **clear** the task, or **delete the run and create it again** under its `run_id`. A new run works
on what there is. A repeated one takes over what it kept; what it had settled it leaves out, or goes on to the next
messages with `on_settled="next"`. Counted on a real Airflow. Made by `make faults`; do not edit.
"""
KEY = """- **acked**: messages that the repeated or new run acked.
- **left**: messages that are ready after it, for others.
- **says so**: the task said `settled_before` in its XCom.
- **wrong**: messages acked, left or spoken of other than they should be.
- **stuck**: messages that it left under a lease.
"""
PAGE = report.page("airflow-repeated-runs", HEAD, KEY, ("wrong", "stuck"))
WAYS = {
    "decorator_skip": "@task.redis_queue",
    "decorator_next": '@task.redis_queue, on_settled="next"',
    "consume_again": "consume operator",
    "spark_skip": "Spark operator",
    "spark_next": 'Spark operator, on_settled="next"',
    "sensor_again": "sensor with hand_over",
}
SHORT = ("decorator_skip", "consume_again", "spark_skip", "sensor_again")


class Case(NamedTuple):
    """A way of working, how its run is repeated, and the expected fate of the messages of the first run."""

    dag_id: str
    again: str
    kept: bool

    @property
    def name(self) -> str:
        return f"again.{self.dag_id}.{self.again}.{'kept' if self.kept else 'settled'}"

    @property
    def expected(self) -> dict[str, int]:
        """A consumer leaves no record of what it acked, so it continues in any case."""
        known = self.again == "cleared" and not self.kept and self.dag_id != "consume_again"
        skipped = BATCH if known and self.dag_id.endswith("skip") else 0
        return {"acked": BATCH - skipped, "left": skipped, "says so": int(known)}


class Again:
    """`begin`, `reach` the end of the first run, repeat it with `again`, `count`."""

    def __init__(self, world: World, case: Case) -> None:
        self.case = case
        self.run = (case.dag_id, case.name)
        self.ledger = Ledger(case.name, world.airflow.ledgers)
        self.queue = LeasedQueue(world.redis.url, case.name)
        self._rest = world.airflow.rest

    def begin(self) -> None:
        self.queue.publish_many([f"first {number}" for number in range(BATCH)])
        if self.case.kept:
            (self.ledger.folder / "keeps").touch()
        self._rest.trigger(*self.run, {"queue": self.queue.name})

    def reach(self) -> None:
        """The first run is over, and nothing is held up any more."""
        if self.case.kept and self.case.dag_id == "consume_again":
            until(self.ledger.stands, PATIENCE_S, pace_s=0.5)
            psutil.Process(self._rest.tasks(*self.run)["take"].pid).kill()
        waits = self.case.kept and self.case.dag_id != "sensor_again"
        until(self._waits_for_retry if waits else self._ended, PATIENCE_S, pace_s=0.5)
        stats = self.queue.stats()
        assert (stats.ready, stats.leased) == (0, BATCH if self.case.kept else 0), (self.case, stats)
        if self.case.kept:
            (self.ledger.folder / "keeps").unlink()
        else:
            self.queue.publish_many([f"second {number}" for number in range(BATCH)])

    def come_again(self) -> None:
        if self.case.again == "cleared":
            self._rest.clear(*self.run, "wait" if self.case.dag_id == "sensor_again" else "take")
            return
        if not self._ended():
            self._rest.mark_run(*self.run, "failed")
        self._rest.delete_run(*self.run)
        self._rest.trigger(*self.run, {"queue": self.queue.name})

    def count(self) -> dict[str, int]:
        until(lambda: self._ended() and self._rest.tasks(*self.run)["take"].state == "success", PATIENCE_S, pace_s=0.5)
        stats = self.queue.stats()
        published = BATCH if self.case.kept else 2 * BATCH
        left = stats.ready + stats.delayed + stats.leased + stats.dead
        acked = published - left - (0 if self.case.kept else BATCH)
        found = {"acked": acked, "left": stats.ready, "says so": self._says_so()}
        wrong = sum(abs(found[name] - number) for name, number in self.case.expected.items())
        return {**found, "wrong": wrong, "stuck": stats.leased}

    def _says_so(self) -> int:
        speaker = "wait" if self.case.dag_id == "sensor_again" else "take"
        pushed = self._rest.pushed(*self.run, speaker)
        returned: Any = pushed.get("return_value")
        if isinstance(returned, dict):
            return int(returned["settled_before"])
        return int(pushed.get("settled_before", False))

    def _ended(self) -> bool:
        return self._rest.run_state(*self.run) in ENDED

    def _waits_for_retry(self) -> bool:
        return self._rest.tasks(*self.run)["take"].state == "up_for_retry"


@pytest.fixture
def cases(deployed: World, pytestconfig: pytest.Config) -> Iterator[list[Again]]:
    """The short form omits runs that are cleared: `tests/airflow` tests those without a deployed Airflow."""
    full = pytestconfig.getoption("faults") == "full"
    ways, hows = (WAYS, ("cleared", "deleted")) if full else (SHORT, ("deleted",))
    all_of_them = [Case(way, how, kept) for way in ways for how in hows for kept in (False, True)]
    with contextlib.ExitStack() as stack:
        opened = [Again(deployed, case) for case in all_of_them]
        for one in opened:
            stack.enter_context(one.queue)
        yield opened


def test_a_new_run_processes_ready_messages_and_a_repeated_run_its_own(cases: list[Again]) -> None:
    counts: dict[Case, dict[str, int]] = {}
    for start in range(0, len(cases), AT_ONCE):
        counts |= _play(cases[start : start + AT_ONCE])
    for case, found in counts.items():
        how = "cleared" if case.again == "cleared" else "deleted and created again"
        PAGE.cells.append(report.Cell(f"{how}, {'kept' if case.kept else 'settled'}", WAYS[case.dag_id], found))
    for case, found in counts.items():
        assert (found["wrong"], found["stuck"]) == (0, 0), (case, found)


def _play(cases: list[Again]) -> dict[Case, dict[str, int]]:
    steps: list[Callable[[Again], None]] = [Again.begin, Again.reach, Again.come_again]
    for step in steps:
        for one in cases:
            step(one)
        # A late event about the first run is taken by the scheduler for the end of the new run's task of that name.
        time.sleep(SCHEDULER_S)
    return {one.case: one.count() for one in cases}
