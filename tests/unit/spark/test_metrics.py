from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_spark.stream.metrics import RmqMetricsListener, _number, margin_s, offset_of
from rmq_spark.stream.offsets import Offset

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_offsets_of_rmq_are_recognized_among_those_of_other_sources() -> None:
    ours = Offset("work", "c", "s", 3)
    assert offset_of(json.dumps(ours.plain)) == ours
    for other in (None, "", "17", '{"topic":{"0":1}}', "[]", "null"):
        assert offset_of(other) is None


def test_the_margin_is_that_of_the_lease_that_expires_first() -> None:
    leases: list[Any] = [SimpleNamespace(deadline=NOW + timedelta(seconds=left)) for left in (30, 20)]
    forever: Any = SimpleNamespace(deadline=None)
    assert margin_s([*leases, forever], NOW) == 20
    assert margin_s([forever], NOW) is None
    assert margin_s([], NOW) is None


@pytest.mark.parametrize(("rate", "number"), [(None, 0), (float("nan"), 0), (float("inf"), 0), (2.5, 2.5)])
def test_a_rate_is_always_a_number(rate: float | None, number: float) -> None:
    assert _number(rate) == number


def test_a_listener_without_a_callback_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="on_metrics, meter or both"):
        RmqMetricsListener("redis://nowhere")
