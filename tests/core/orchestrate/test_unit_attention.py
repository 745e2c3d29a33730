"""Which queues need attention, and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rmq_core.observe.history import HistoryPoint
from rmq_core.orchestrate.attention import Trend, lasting, signs, trend_in
from rmq_core.orchestrate.limits import AlertLimits, LimitBounds, StatsLimits
from rmq_core.reports import Client

CALM: dict[str, Any] = {"name": "work", "ready": 5, "dead": 0, "oldest_age": 3.0, "isolated": 0, "paused": False}
LIMITS = AlertLimits(
    stats=StatsLimits(oldest_age=LimitBounds(warn=600), lease_age=LimitBounds(warn=900)), growth=100, dead_within=3600
)
AT = datetime.fromtimestamp(0, UTC)


def kinds(trend: Trend, **numbers: Any) -> list[str]:
    return [each.kind for each in signs({**CALM, **numbers}, trend, LIMITS)]


def points(*ready: int | None, dead: int = 0) -> list[HistoryPoint]:
    return [HistoryPoint(at=AT, seconds=60, ready=number, dead=dead) for number in ready]


def minutes(**counts: list[int]) -> list[HistoryPoint]:
    """Return the points of some minutes, each with its counts."""
    rows = [dict(zip(counts, row, strict=True)) for row in zip(*counts.values(), strict=True)]
    return [HistoryPoint(at=AT + timedelta(minutes=at), seconds=60, **row) for at, row in enumerate(rows)]


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
        ({}, Trend(failed=5, acked=4), ["failing"]),
        ({}, Trend(failed=5, acked=5), []),
        ({}, Trend(failed=4), []),
        ({"late": True}, Trend(), ["expired"]),
        ({"ready": 0, "leased": 94, "oldest_age": None, "oldest_lease": 901.0}, Trend(), ["held"]),
        ({"leased": 94, "oldest_lease": 900.0}, Trend(), []),
        ({"oldest_age": 21.0}, Trend(idle=21.0), ["unclaimed"]),
        ({"oldest_age": 20.0}, Trend(idle=21.0), []),
        ({"oldest_age": 21.0}, Trend(idle=20.0), []),
        ({"oldest_age": 21.0}, Trend(idle=None), []),
        ({"oldest_age": 21.0, "leased": 1}, Trend(idle=21.0), []),
        ({"oldest_age": 21.0, "paused": True}, Trend(idle=21.0), ["paused"]),
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


@pytest.mark.parametrize(("age", "since"), [(360.0, 3600.0), (3600.0, 360.0)])
def test_nobody_has_claimed_for_as_long_as_messages_have_waited(age: float, since: float) -> None:
    found = signs({"ready": 1, "oldest_age": age}, Trend(idle=since), LIMITS)
    assert ("unclaimed", "messages are ready, and nobody has claimed any for 6 min") in found


@pytest.mark.parametrize(
    ("numbers", "trend", "text"),
    [
        ({"dead": 1}, Trend(dead=1), "1 dead letter in the last hour"),
        ({"dead": 2}, Trend(newest=9.0), "2 dead letters, the newest 9 s old"),
        ({"dead": 1_200}, Trend(newest=180_000.0), "1,200 dead letters, the newest 2 d 2 h old"),
        ({}, Trend(failed=6, acked=1), "6 deliveries failed in the last 15 minutes, and only 1 message was acked"),
        ({}, Trend(failed=1_000), "1,000 deliveries failed in the last 15 minutes, and no messages were acked"),
        (
            {"oldest_age": 5_400.0},
            Trend(),
            "the oldest message has waited for 1 h 30 min, longer than the target of 10 min",
        ),
        ({"oldest_age": 9e9}, Trend(idle=9e9), "messages are ready, and nobody has claimed any for an hour or more"),
        (
            {"oldest_age": 90.0},
            Trend(idle=9e9, lone=True),
            "messages are ready, and nobody has claimed any for 90 s: no known consumer",
        ),
    ],
)
def test_a_reason_says_in_words_what_happened(numbers: dict[str, Any], trend: Trend, text: str) -> None:
    assert text in [each.text for each in signs({**CALM, **numbers}, trend, LIMITS)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3.0, "0 s"), (0.99, "0 s"), (2.5, "3 s"), (99.9, "100 s"), (100, "2 min"), (3_569, "59 min"), (3_570, "1 h"),
        (7_260, "2 h 1 min"), (86_399, "1 d"), (90_000, "1 d 1 h"),
    ],
)  # fmt: skip
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


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
    assert trend_in(points(*ready), AT).grown == grown


@pytest.mark.parametrize(
    ("claimed", "idle"),
    [([0, 0, 0], 145.0), ([0, 3, 0], 25.0), ([0, 0, 3], 0.0), ([3, 0, 0], 85.0)],
)
def test_nobody_has_claimed_since_the_end_of_the_last_minute_with_a_claim(claimed: list[int], idle: float) -> None:
    now = AT + timedelta(minutes=2, seconds=25)
    assert trend_in(minutes(claimed=claimed, published=[1, 0, 0]), now).idle == idle


def test_claims_that_were_counted_with_their_time_tell_it_to_the_second() -> None:
    counted = minutes(claimed=[1, 2, 0], last_claim=[59.0, 20.5, None])
    assert trend_in(counted, AT + timedelta(minutes=2, seconds=10)).idle == 49.5


@pytest.mark.parametrize(("ages", "idle"), [([], None), ([59, 90_000], 0.0), ([90_000, 85], 25.0)])
def test_without_a_history_the_newest_record_of_a_consumer_tells_whether_anybody_claims(
    ages: list[int], idle: float | None
) -> None:
    clients = [Client("consumer", "host", 1, "1.0", "", AT - timedelta(seconds=age)) for age in ages]
    clients.append(Client("publisher", "host", 2, "1.0", "", AT))
    found = trend_in(points(None, None), AT, clients=clients)
    assert (found.idle, found.lone) == (idle, not ages)


def test_deliveries_fail_by_nacks_by_expiry_and_by_takeovers_of_the_last_quarter_of_an_hour() -> None:
    loop = minutes(nacked=[9, *[1] * 15], reclaimed=[9, *[2] * 15], taken_over=[9, *[3] * 15], acked=[9, *[1] * 15])
    found = trend_in(loop, AT)
    assert (found.failed, found.acked, found.crashes) == (90, 15, 15)


def test_a_crash_loop_that_has_ended_says_since_when() -> None:
    over = trend_in(minutes(reclaimed=[1, 1, 1, 0, 0, 0, 0]), AT)
    (sign,) = signs({**CALM, "oldest_age": None}, over, LIMITS)
    assert sign.text == "leases expired in 3 of the last 15 minutes, but in none of the last 4"
    assert trend_in(minutes(reclaimed=[1, 1, 0, 0]), AT).calm == 2
