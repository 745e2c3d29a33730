from __future__ import annotations

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_core import ConfigurationError
from rmq_dagster import build_redis_queue_sensor
from rmq_dagster.sensors import rings


@dg.op
def nothing() -> None: ...


@dg.job
def drain() -> None:
    nothing()


@pytest.mark.parametrize(
    ("ready", "batch", "on_the_way", "room", "expected"),
    [
        (0, 10, 0, 5, 0),
        (1, 10, 0, 5, 1),
        (10, 10, 0, 5, 1),
        (11, 10, 0, 5, 2),
        (1000, 10, 0, 5, 5),
        (11, 10, 1, 4, 1),
        (10, 10, 1, 4, 0),
        (1000, 10, 3, 2, 2),
        (1000, 10, 5, 0, 0),
        (10, 10, 0, -2, 0),
    ],
)
def test_a_tick_asks_for_one_run_per_batch_less_those_on_their_way_and_never_above_the_room(
    ready: int, batch: int, on_the_way: int, room: int, expected: int
) -> None:
    assert rings(ready, batch, on_the_way, room) == expected


@given(ready=st.integers(1, 10**7), batch=st.integers(1, 10**4), cap=st.integers(1, 50))
def test_ticks_without_any_claim_in_between_settle_at_exactly_the_runs_the_backlog_needs(
    ready: int, batch: int, cap: int
) -> None:
    pending = 0
    for _ in range(3):
        pending += rings(ready, batch, pending, cap - pending)
    assert pending == min(-(-ready // batch), cap)


@pytest.mark.parametrize("parameter", ["batch", "max_in_flight_runs"])
def test_a_bell_that_could_never_ring_is_refused_with_the_name_of_the_parameter(parameter: str) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        build_redis_queue_sensor("flights", target=drain, **{"batch": 1, "max_in_flight_runs": 1, parameter: 0})  # type: ignore[arg-type]


def test_the_sensor_is_named_after_its_queue_in_letters_that_dagster_accepts() -> None:
    assert build_redis_queue_sensor("tenant:a/flights", target=drain).name == "tenant_a_flights_doorbell"


def test_options_of_dagsters_own_sensors_are_passed_on() -> None:
    made = build_redis_queue_sensor(
        "flights", target=drain, name="bell", minimum_interval_seconds=5, default_status=dg.DefaultSensorStatus.RUNNING
    )
    assert (made.name, made.minimum_interval_seconds) == ("bell", 5)
    assert made.default_status is dg.DefaultSensorStatus.RUNNING
