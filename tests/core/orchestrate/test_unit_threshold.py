"""The threshold is the same in a sensor of Airflow, a doorbell of Dagster and a wait of the core."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias

import pytest

from rmq_airflow.batch import threshold_of
from rmq_core import ConfigurationError
from rmq_core.orchestrate import Threshold, counted, repeat_after_s
from rmq_core.orchestrate.waiting import Waiter
from rmq_core.reports import Backlog, QueueStats
from rmq_dagster.runs.requesting import Doorbell

Enough: TypeAlias = Callable[[int, float | None, Backlog], bool]


def in_airflow(min_messages: int, max_age: float | None, backlog: Backlog) -> bool:
    return threshold_of(min_messages, max_age).met_by(backlog)


def in_dagster(min_messages: int, max_age: float | None, backlog: Backlog) -> bool:
    return Doorbell("q", "s", 1, 1, 1, min_messages, max_age).is_enough(backlog)


def in_the_core(min_messages: int, max_age: float | None, backlog: Backlog) -> bool:
    answer: asyncio.Future[Backlog] = asyncio.Future(loop=asyncio.new_event_loop())
    try:
        return Waiter(Threshold(min_messages, max_age), answer).enough.met_by(backlog)
    finally:
        answer.get_loop().close()


@pytest.mark.parametrize("enough", [in_airflow, in_dagster, in_the_core])
@pytest.mark.parametrize(
    ("min_messages", "max_age", "backlog", "met"),
    [
        (3, None, Backlog(3, 0.0), True),
        (3, None, Backlog(2, 9999.0), False),
        (100, 60, Backlog(1, 60.0), True),
        (100, 60, Backlog(1, 59.9), False),
        (1, 1, Backlog(0, None), False),
        (1, 1, Backlog(0, 5.0), False),
        (1, 1, Backlog(9, 5.0, paused=True), False),
    ],
)
def test_enough_messages_of_any_age_or_one_old_message_meet_the_threshold(
    enough: Enough, min_messages: int, max_age: float | None, backlog: Backlog, *, met: bool
) -> None:
    assert enough(min_messages, max_age, backlog) is met


def test_each_ring_in_vain_doubles_the_wait_up_to_ten_minutes_or_the_interval() -> None:
    assert [repeat_after_s(10, in_vain) for in_vain in (0, 1, 2, 5, 6, 7, 10_000)] == [10, 20, 40, 320, 600, 600, 600]
    assert repeat_after_s(3600, 3) == 3600


@pytest.mark.parametrize("min_messages", [0, -1, 1.5, True, "3"])
def test_an_invalid_number_raises_an_error_that_names_it(min_messages: Any) -> None:
    with pytest.raises(ConfigurationError, match="min_messages"):
        threshold_of(min_messages, None)
    with pytest.raises(ConfigurationError, match="min_messages"):
        in_dagster(min_messages, None, Backlog(0, None))


@pytest.mark.parametrize("max_age", [0, -1.0, True, "1h", timedelta(0), float("nan")])
def test_an_invalid_age_raises_an_error_that_names_it(max_age: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_age"):
        threshold_of(1, max_age)


@pytest.mark.parametrize(("count", "number"), [("ready", 1), ("dead", 4), ("depth", 6)])
def test_depth_counts_ready_delayed_and_leased_messages(count: Any, number: int) -> None:
    stats = QueueStats(ready=1, delayed=2, leased=3, dead=4, leases=1, oldest_age=None, paused=False)
    assert counted(count, stats) == number
