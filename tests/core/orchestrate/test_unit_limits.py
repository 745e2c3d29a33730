"""Limits say which numbers of a queue are too high; Dagster's checks judge by the same."""

from __future__ import annotations

import dagster as dg
import pytest

from rmq_core import ConfigurationError
from rmq_core.orchestrate import Exceeded, LimitBounds, StatsLimits
from rmq_core.reports import QueueStats
from rmq_dagster import Limit

HEALTHY = QueueStats(ready=3, delayed=2, leased=1, leases=1, dead=0, oldest_age=4.0, paused=False)


def test_exceeded_limits_are_named_with_value_and_bound_errors_first() -> None:
    limits = StatsLimits(
        depth=LimitBounds(warn=5, error=100), oldest_age=LimitBounds(warn=1, error=3), isolated=LimitBounds(warn=0)
    )
    assert limits.exceeded(HEALTHY._replace(dead=2)) == [
        Exceeded("oldest_age", 4.0, 3.0, "error"),
        Exceeded("dead_letters", 2, 0.0, "error"),
        Exceeded("depth", 6, 5.0, "warn"),
    ]


@pytest.mark.parametrize("bounds", [{}, {"warn": -1}, {"warn": 2, "error": 1}, {"error": float("nan")}])
def test_bounds_that_say_nothing_or_contradict_each_other_are_refused(bounds: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="LimitBounds needs"):
        LimitBounds(**bounds)


@pytest.mark.parametrize(("value", "severity"), [(1, None), (2, "WARN"), (4, "ERROR")])
def test_a_check_of_dagster_judges_by_the_same_bounds(value: float, severity: str | None) -> None:
    found = Limit(warn=1, error=3).judge(value)
    assert found == (severity and dg.AssetCheckSeverity[severity])
    assert (found and found.value) == (severity and LimitBounds(warn=1, error=3).grade(value).upper())  # type: ignore[union-attr]
