"""The conclusions of `make demo` from its observations."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from example_dags.demo.__main__ import judge
from example_dags.demo.family import alive, descendants
from example_dags.demo.outcome import EXPECTED, STEPS, Outcome, summary
from example_dags.demo.progress import Progress
from example_dags.demo.watch import QueueWatch
from rmq_core.reports import LeaseInfo, QueueStats, SettledRecord

GOOD = Outcome("Airflow", EXPECTED, dict.fromkeys(STEPS, 1.25), Path("/results"), Path("/results/delays.png"))


def test_the_table_has_every_figure_of_every_orchestrator_and_the_location_of_the_plots() -> None:
    text = summary([GOOD, replace(GOOD, orchestrator="Dagster")])
    (row,) = [line.split() for line in text.splitlines() if line.startswith("rows written  ")]
    assert row == ["rows", "written", "336,776", "336,776"]
    assert all(name in text for name in EXPECTED)
    assert text.count("/results/delays.png") == 2


def test_figures_that_match_are_a_success() -> None:
    assert judge([GOOD], crash=False) == 0


@pytest.mark.parametrize("name", list(EXPECTED))
def test_any_figure_that_does_not_match_is_a_failure_that_names_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge([replace(GOOD, figures={**EXPECTED, name: 7})], crash=False) == 1
    assert f"Airflow: {name} 7, not" in capsys.readouterr().err


def test_a_crash_that_did_not_happen_is_a_failure() -> None:
    assert judge([GOOD], crash=True) == 1
    assert judge([replace(GOOD, crash="the Spark driver was killed")], crash=True) == 0


class SeenQueue:
    """The part of a queue that the monitor reads."""

    def __init__(self) -> None:
        self.held: LeaseInfo | None = None

    def stats(self) -> QueueStats:
        leased = self.held.count if self.held else 0
        return QueueStats(0, 0, leased, int(bool(leased)), 0, None, paused=False)

    @property
    def admin(self) -> SeenQueue:
        return self

    def leases(self) -> list[LeaseInfo]:
        return [self.held] if self.held else []

    def settled(self, lease_id: str) -> SettledRecord:
        return SettledRecord(lease_id, 1095, "driver", datetime.now(UTC))


def test_the_watch_says_how_many_tasks_of_spark_are_done_and_how_many_items_were_acked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("example_dags.demo.progress.QUIET_S", -1)
    queue, tasks, now = SeenQueue(), tmp_path / "tasks", datetime.now(UTC)
    seen: Any = queue
    watch = QueueWatch("airflow", seen, Progress(), None, tasks)
    queue.held = LeaseInfo("run/delays", "run", "held", 1095, 0, 0, now, now, 1)
    watch.poll()
    tasks.write_text("14 24")
    watch.poll()
    queue.held = None
    watch.poll()
    watch.poll()
    said = [line.partition("airflow  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert said == [
        "queue: 0 items ready to be claimed, 1,095 held under a lease, 0 dead",
        "the lease of 1,095 items was claimed as run/delays",
        "Spark is starting",
        "Spark: 14 of 24 tasks done so far",
        "queue: 0 items ready to be claimed, 0 held under a lease, 0 dead",
        "acked: 1,095 items, now that their results are written",
    ]


def test_the_monitor_distinguishes_a_killed_driver_its_retry_and_the_hand_overs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue, marker, now = SeenQueue(), tmp_path / "killed", datetime.now(UTC)
    seen: Any = queue
    watch = QueueWatch("airflow", seen, Progress(), marker)
    for fence, takeovers, killed in [(1, 0, False), (2, 0, False), (3, 0, True), (4, 1, True), (5, 1, True)]:
        queue.held = LeaseInfo("run/delays", "run", "held", 1095, 0, takeovers, now, now, fence)
        if killed:
            marker.touch()
        watch.poll()
    lines = [line for line in capsys.readouterr().out.splitlines() if "the lease of" in line]
    assert [line.partition("1,095 items ")[2] for line in lines] == [
        "was claimed as run/delays",
        "was adopted by the Spark driver",
        "was taken back from the dead driver, to be kept for the retry",
        "was taken over by the retry",
        "was adopted by the Spark driver",
    ]
    assert watch.crash is not None
    assert "re-adopted the same lease with all its 1,095 items: run/delays" in watch.crash


def test_descendants_are_found_across_sessions_and_a_zombie_is_not_alive() -> None:
    script = "import subprocess; subprocess.run(['sleep', '60'], start_new_session=True)"
    with subprocess.Popen([sys.executable, "-c", script]) as parent:
        found: list[int] = []
        while parent.pid not in found or len(found) < 2:
            found = [pid for pid in descendants(os.getpid()) if pid == parent.pid or pid in descendants(parent.pid)]
        assert all(alive(pid) for pid in found)
        for pid in found:
            os.kill(pid, 9)
        while alive(parent.pid):
            continue
        assert Path(f"/proc/{parent.pid}").exists() or not Path("/proc").exists()  # not waited for yet
