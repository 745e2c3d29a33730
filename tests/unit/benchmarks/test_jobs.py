"""The benchmark of jobs: its clocks, its figures, and its notice when it cannot be run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks import jobs
from benchmarks.beside import Laps
from benchmarks.jobs import _figures
from benchmarks.jobs_peers import CHASQUI, OTHERS, RMQ
from benchmarks.jobs_tally import Clock, Taken, Tally
from benchmarks.jobs_worker import LIBRARIES
from benchmarks.message_queue_peers import Missing


class Steps(Clock):
    """A clock that advances by one second each time it is read."""

    def __init__(self) -> None:
        super().__init__(server_pid=0)
        self.read = 0

    def now(self) -> Taken:
        self.read += 1
        return Taken(self.read, self.read / 2, self.read / 4)


def test_a_tally_times_the_jobs_between_the_first_tenth_and_the_last() -> None:
    ended: list[bool] = []
    tally = Tally(Steps(), 20, lambda: ended.append(True))
    for _ in range(17):
        tally.note()
    assert tally.taken is None
    tally.note()
    assert (tally.taken, tally.timed) == (Taken(1, 0.5, 0.25), 16)
    assert not ended
    tally.note()
    tally.note()
    assert ended == [True]


def test_a_clock_without_a_server_process_reports_no_server_time() -> None:
    assert Clock(server_pid=0).now().server_s == 0


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not tell")
def test_a_clock_reads_the_processor_time_of_the_server() -> None:
    clock = Clock(os.getpid())
    before = clock.now()
    sum(range(10**6))
    assert clock.now().since(before).server_s > 0


def test_a_ratio_is_computed_against_the_slices_before_and_after() -> None:
    laps = Laps()
    laps.note(Taken(4, 2, 1), (Taken(1, 1, 0), Taken(3, 1, 1)))
    assert (laps.ratios, laps.work_ratios) == ([2], [2])


def test_a_row_is_summed_up_against_chasquimq_and_the_best_of_the_others() -> None:
    laps = {RMQ.name: _laps(1), CHASQUI.name: _laps(2), OTHERS[0].name: _laps(4), OTHERS[1].name: _laps(3)}
    over_chasqui, over_others = _figures("worker, best concurrency", laps)
    assert (over_chasqui.spread.median, over_others.spread.median) == (2, 3)
    assert OTHERS[1].name in over_others.context
    assert {over_chasqui.name, over_others.name} <= jobs.TARGETS.keys()


def test_every_library_has_a_program() -> None:
    assert {rival.library for rival in (RMQ, CHASQUI, *OTHERS)} <= LIBRARIES.keys()


def test_the_table_states_why_nothing_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise Missing("no Python 3.12 was found")

    monkeypatch.setattr(jobs, "Hand", missing)
    monkeypatch.setattr(jobs, "_server_pid", lambda _: 0)
    (table,) = jobs.measure(0, 1).tables
    assert table.note == "Not measured: no Python 3.12 was found."


def _laps(wall_s: float) -> Laps:
    laps = Laps()
    laps.note(Taken(wall_s, wall_s, 0), (Taken(1, 1, 0),))
    return laps
