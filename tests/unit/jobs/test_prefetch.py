from __future__ import annotations

from rmq_core.discipline.jobs.prefetch import Prefetch


def test_nothing_is_fetched_ahead_before_anything_is_known() -> None:
    assert Prefetch(1000).extra == 0


def test_quick_jobs_are_fetched_ahead_by_what_is_done_in_a_moment() -> None:
    prefetch = Prefetch(1000)
    assert prefetch.note(100, 0.01) == 200  # 10,000 a second, 20 ms


def test_slow_jobs_are_left_to_others() -> None:
    prefetch = Prefetch(1000)
    prefetch.note(1, 10)
    assert prefetch.extra == 0


def test_no_more_than_the_limit_is_fetched_ahead() -> None:
    assert Prefetch(50).note(10_000, 0.01) == 50
    assert Prefetch(0).note(10_000, 0.01) == 0


def test_what_was_quick_is_forgotten_when_it_becomes_slow() -> None:
    prefetch = Prefetch(1000)
    prefetch.note(100, 0.01)
    for second in range(1, 12):
        prefetch.note(100, second)
    assert prefetch.extra == 0


def test_two_looks_in_one_moment_count_as_one() -> None:
    prefetch = Prefetch(1000)
    prefetch.note(100, 0.01)
    assert prefetch.note(100, 0.0101) == 200
