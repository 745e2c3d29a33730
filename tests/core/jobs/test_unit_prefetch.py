from __future__ import annotations

from rmq_core.jobs.worker import Prefetch


def test_quick_jobs_are_prefetched_in_proportion_to_their_rate() -> None:
    prefetch = Prefetch(1000)
    assert prefetch.note(100, 0.01) == 200  # 10,000 a second, 20 ms


def test_the_prefetch_never_exceeds_its_limit() -> None:
    assert Prefetch(50).note(10_000, 0.01) == 50
    assert Prefetch(0).note(10_000, 0.01) == 0


def test_a_high_rate_is_forgotten_when_jobs_become_slow() -> None:
    prefetch = Prefetch(1000)
    prefetch.note(100, 0.01)
    for second in range(1, 12):
        prefetch.note(100, second)
    assert prefetch.extra == 0


def test_two_measurements_in_quick_succession_count_as_one() -> None:
    prefetch = Prefetch(1000)
    prefetch.note(100, 0.01)
    assert prefetch.note(100, 0.0101) == 200
