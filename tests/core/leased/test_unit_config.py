from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from rmq_core.errors import ConfigurationError
from rmq_core.leased.config import LeasedConfig
from rmq_core.policy import Overflow

DURATIONS = ["lease", "max_hold", "dedup_window", "settled_ttl", "retry_budget"]
SIZES = ["max_deliveries", "max_ready", "max_payload_bytes", "max_payload_depth", "max_dead"]
LOGS = ["completed_log", "failed_log"]


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize("value", [0, -1, 0.0001, True, "5", math.nan, math.inf, 10**9 + 1, timedelta(0)])
def test_an_invalid_duration_raises_an_error_that_names_it(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{name} must be a timedelta or 0\.001 to 1000000000 seconds"):
        LeasedConfig(**{name: value})


@pytest.mark.parametrize("name", ["dedup_window", "settled_ttl", "retry_budget"])
def test_a_duration_that_must_be_finite_cannot_be_none(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} must be"):
        LeasedConfig(**{name: None})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "5"])
def test_an_invalid_size_raises_an_error_that_names_it(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} must be a whole number >= 1, not {value!r}"):
        LeasedConfig(**{name: value})


@pytest.mark.parametrize("name", ["max_payload_bytes", "max_payload_depth", "max_dead", *LOGS])
def test_a_size_that_must_be_bounded_cannot_be_none(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} must be a whole number"):
        LeasedConfig(**{name: None})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("value", [-1, False, 1.0])
def test_a_log_holds_a_whole_number_of_messages_or_none(name: str, value: Any) -> None:
    assert getattr(LeasedConfig(**{name: 0}), name) == 0  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=f"^{name} must be a whole number >= 0"):
        LeasedConfig(**{name: value})


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.BLOCK(1)])
def test_an_overflow_without_a_limit_is_refused(overflow: Overflow) -> None:
    with pytest.raises(ConfigurationError, match="overflow needs max_ready"):
        LeasedConfig(overflow=overflow)
    assert LeasedConfig(overflow=overflow, max_ready=1).overflow == overflow


@pytest.mark.parametrize("overflow", ["block", None, Overflow.BLOCK])
def test_what_is_no_overflow_is_refused(overflow: Any) -> None:
    with pytest.raises(ConfigurationError, match="overflow must be an Overflow"):
        LeasedConfig(max_ready=1, overflow=overflow)


@pytest.mark.parametrize("dedup", [{"dedup": True}, {"dedup_key": str}])
def test_dropping_the_oldest_messages_with_deduplication_is_refused(dedup: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="DROP_OLDEST cannot be combined with dedup"):
        LeasedConfig(overflow=Overflow.DROP_OLDEST, max_ready=1, **dedup)
    assert LeasedConfig(overflow=Overflow.BLOCK(1), max_ready=1, **dedup).max_ready == 1


def test_a_dedup_key_that_is_not_callable_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="dedup_key must be a callable"):
        LeasedConfig(dedup_key="id")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"durability": 1}, "durability must be a Durability"),
        ({"backoff": 5}, "backoff must be a Backoff"),
        ({"max_payload_depth": 10**6}, "max_payload_depth must be at most"),
    ],
)
def test_a_policy_of_another_type_is_refused_with_an_example(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{words}"):
        LeasedConfig(**wrong)
