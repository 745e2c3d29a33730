from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from rmq_core import ConfigurationError, Durability, exponential
from rmq_core.policy import Breaker, Rate, as_text, milliseconds, of_text, seconds, whole


@pytest.mark.parametrize(
    "given", [-1, float("nan"), float("inf"), 1e300, "1", None, True, timedelta(seconds=-1), [], 1j, timedelta.max]
)
def test_other_durations_raise_an_error_that_names_the_parameter(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"delay must be a timedelta or 0 to .* seconds, not"):
        seconds("delay", given)


@pytest.mark.parametrize(
    ("given", "expected"), [(0, 0), (0.0001, 1), (0.001, 1), (1.0001, 1001), (2, 2000), (0.1, 100)]
)
def test_milliseconds_are_whole_and_never_rounded_down_to_nothing(given: float, expected: int) -> None:
    assert milliseconds("wait", given) == expected
    assert type(milliseconds("wait", given)) is int


@pytest.mark.parametrize("given", [-1, 1.0, "1", None, True])
def test_whole_numbers_are_validated(given: Any) -> None:
    assert whole("count", 0) == 0
    with pytest.raises(ConfigurationError, match=r"count must be a whole number >= 0, not"):
        whole("count", given)


def test_a_backoff_doubles_up_to_its_cap() -> None:
    backoff = exponential(base=2, cap=timedelta(seconds=30), jitter=0)
    assert [backoff.delay(deliveries) for deliveries in (0, 1, 2, 3, 4, 5, 6)] == [2, 2, 4, 8, 16, 30, 30]
    assert backoff.delay(10**9) == 30


def test_jitter_takes_a_random_share_off_each_delay() -> None:
    backoff = exponential(base=100, cap=100, jitter=0.5)
    delays = {backoff.delay(1) for _ in range(50)}
    assert len(delays) > 10
    assert all(50 <= delay <= 100 for delay in delays)


@pytest.mark.parametrize(
    ("parameter", "options"),
    [("jitter", {"jitter": 1.5}), ("jitter", {"jitter": -0.1}), ("base", {"base": -1}), ("cap", {"cap": "1"})],
)
def test_a_backoff_with_a_wrong_value_names_it(parameter: str, options: Any) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        exponential(**options)


def test_durability_waits_for_replicas() -> None:
    durability = Durability(replicas=2, timeout=0.5)
    assert durability.command() == ("WAIT", 2, 500)
    assert [durability.confirmed(replicas) for replicas in (1, 2, 3)] == [False, True, True]


def test_durability_waits_for_append_only_files() -> None:
    durability = Durability(replicas=1, timeout=2, aof=True)
    assert durability.command() == ("WAITAOF", 1, 1, 2000)
    replies = [[0, 1], [1, 0], [1, 1], [1, 2]]
    assert [durability.confirmed(reply) for reply in replies] == [False, False, True, True]


@pytest.mark.parametrize(
    ("breaker", "text", "told"),
    [
        (Breaker(20, timedelta(minutes=10)), "20 in 10m", "20 dead letters within 10 minutes"),
        (Breaker(1, 3600), "1 in 1h", "1 dead letter within 1 hour"),
        (Breaker(2, timedelta(days=2)), "2 in 2d", "2 dead letters within 2 days"),
        (Breaker(2, 90), "2 in 90s", "2 dead letters within 90 seconds"),
        (Breaker(2, 0.25), "2 in 0.25s", "2 dead letters within 0.25 seconds"),
    ],
)
def test_a_breaker_has_a_text_for_people_and_one_for_scripts(breaker: Breaker, text: str, told: str) -> None:
    assert (as_text(breaker), breaker.reason) == (text, told)
    assert of_text(text) == Breaker.of_stored(breaker.stored) == breaker


@pytest.mark.parametrize(
    ("dead", "within", "parameter"),
    [
        (0, 60, "dead"),
        (1001, 60, "dead"),
        (True, 60, "dead"),
        (2.0, 60, "dead"),
        (2, 0, "within"),
        (2, -1, "within"),
        (2, "10m", "within"),
    ],
)
def test_a_breaker_with_a_wrong_value_names_it(dead: Any, within: Any, parameter: str) -> None:
    with pytest.raises(ConfigurationError, match=f"pause_after_dead.{parameter}"):
        Breaker(dead, within)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("50/1m", "1200000*1"),
        ("50/1m burst 10", "1200000*10"),
        ("7/1s", "142858*1"),  # rounded to the slower rate
        ("5/250ms", "50000*1"),
        ("1/1.5ms", "1500*1"),
        ("2/1d burst 4", "43200000000*4"),
    ],
)
def test_a_rate_has_a_text_and_whole_microseconds_for_scripts(text: str, stored: str) -> None:
    rate = of_text(text)
    assert isinstance(rate, Rate)
    assert (as_text(rate), rate.stored) == (text, stored)


def test_a_rate_is_written_in_the_largest_unit() -> None:
    assert str(Rate(1, timedelta(hours=1.5))) == "1/90m"
    assert str(Rate(3, 90)) == "3/90s"
    assert str(Rate(3, 0.0015, burst=2)) == "3/1.5ms burst 2"
