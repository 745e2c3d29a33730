"""Contenders run between two slices of their baseline, and are compared with both."""

from __future__ import annotations

import pytest

from benchmarks import rounds
from benchmarks.rounds import Contender, race, race_async


class Clock:
    """A clock that moves only when work is done."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def work(self, name: str, seconds: float) -> None:
        self.log.append(name)
        self.now += seconds

    async def work_async(self, name: str, seconds: float) -> None:
        self.work(name, seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(rounds, "perf_counter", lambda: made.now)
    return made


def test_every_slice_runs_between_two_slices_of_the_baseline(clock: Clock) -> None:
    bare = Contender("bare", lambda: clock.work("bare", 1), 10)
    others = [Contender(name, lambda name=name: clock.work(name, 2), 10) for name in ("a", "b")]
    race(bare, others, 2)
    warm_up, measured = clock.log[:3], clock.log[3:]
    assert warm_up == ["bare", "a", "b"]
    assert measured == ["bare", "a", "bare", "b", "bare"] * 2


def test_a_ratio_is_the_rate_over_the_rate_of_the_baseline_around_it(clock: Clock) -> None:
    bare_s = iter([9.0, 1.0, 3.0])  # the first is the warm-up
    bare = Contender("bare", lambda: clock.work("bare", next(bare_s)), 10)
    laps = race(bare, [Contender("a", lambda: clock.work("a", 4), 20)], 1)
    assert laps["a"].seconds == [0.2]
    assert laps["a"].ratios == pytest.approx([1.0])


def test_preparation_and_clean_up_are_not_measured(clock: Clock) -> None:
    idle = {"before": lambda: clock.work("before", 50), "after": lambda: clock.work("after", 50)}
    laps = race(
        Contender("bare", lambda: clock.work("bare", 1), 1), [Contender("a", lambda: clock.work("a", 1), 1, **idle)], 3
    )
    assert laps["a"].ratio.median == 1
    assert laps["a"].rate == 1


async def test_awaitables_are_raced_in_the_same_way(clock: Clock) -> None:
    bare = Contender("bare", lambda: clock.work_async("bare", 1), 10)
    other = Contender("a", lambda: clock.work_async("a", 2), 10, before=lambda: clock.work_async("before", 9))
    laps = await race_async(bare, [other], 2)
    assert clock.log == ["bare", "before", "a"] + ["bare", "before", "a", "bare"] * 2
    assert laps["a"].ratio.median == 0.5
