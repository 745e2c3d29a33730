"""Which queues need attention, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rmq_console.shown import Trend, signs, trend_in
from rmq_core.observe.history import HistoryPoint
from rmq_core.orchestrate.limits import AlertLimits, LimitBounds, StatsLimits

CALM: dict[str, Any] = {"name": "work", "ready": 5, "dead": 0, "oldest_age": 3.0, "isolated": 0, "paused": False}
LIMITS = AlertLimits(stats=StatsLimits(oldest_age=LimitBounds(warn=600)), growth=100, dead_within=3600)


def kinds(trend: Trend, **numbers: Any) -> list[str]:
    return [each["kind"] for each in signs({**CALM, **numbers}, trend, LIMITS)]


def points(*ready: int | None, dead: int = 0) -> list[HistoryPoint]:
    at = datetime.fromtimestamp(0, UTC)
    return [HistoryPoint(at=at, seconds=60, ready=number, dead=dead) for number in ready]


@pytest.mark.parametrize(
    ("numbers", "trend", "found"),
    [
        ({}, Trend(), []),
        ({"error": "another type"}, Trend(), ["error"]),
        ({"dead": 3}, Trend(dead=2), ["dying"]),
        ({"dead": 3}, Trend(newest=3599.0), ["dying"]),
        ({"dead": 3}, Trend(newest=3601.0), ["dead"]),
        ({"dead": 3}, Trend(), ["dead"]),
        ({"dead": 0}, Trend(dead=2), []),
        ({}, Trend(crashes=1), []),
        ({}, Trend(crashes=2), ["crashing"]),
        ({"late": True}, Trend(), ["expired"]),
        ({"oldest_age": 600.0}, Trend(), []),
        ({"oldest_age": 601.0}, Trend(), ["old"]),
        ({"oldest_age": None}, Trend(), []),
        ({}, Trend(grown=100), []),
        ({}, Trend(grown=101), ["growing"]),
        ({"paused": True}, Trend(), ["paused"]),
        ({"isolated": 4}, Trend(), ["isolated"]),
    ],
)
def test_a_queue_needs_attention_for_each_reason(numbers: dict[str, Any], trend: Trend, found: list[str]) -> None:
    assert kinds(trend, **numbers) == found


@pytest.mark.parametrize(
    ("ready", "grown"),
    [
        ([0] * 30 + [100] * 29 + [500], 400),
        ([900] * 30 + [100] * 29 + [500], 400),
        ([0] * 30 + [100] + [1000] * 28 + [500], 0),
        ([None] * 60, 0),
        ([None] * 50 + [10, None, 400, None, None, None, None, None, None, None], 390),
    ],
)
def test_a_backlog_grows_if_it_is_at_its_peak_of_the_last_half_hour(ready: list[int | None], grown: int) -> None:
    assert trend_in(points(*ready)).grown == grown
