from __future__ import annotations

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_core import ConfigurationError
from rmq_core.kernel.keys import check_name
from rmq_core.reports import Backlog
from rmq_dagster import QueuePartitions, build_redis_queue_sensor
from rmq_dagster.runs.requesting import Doorbell, round_robin, runs_to_request


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
def test_a_tick_requests_one_run_per_batch_minus_unclaimed_runs_and_at_most_the_free_slots(
    ready: int, batch: int, on_the_way: int, room: int, expected: int
) -> None:
    assert runs_to_request(Backlog(ready, None).claims(batch), on_the_way, room) == expected


@given(ready=st.integers(1, 10**7), batch=st.integers(1, 10**4), cap=st.integers(1, 50))
def test_ticks_without_claims_converge_to_exactly_the_runs_the_backlog_needs(ready: int, batch: int, cap: int) -> None:
    pending = 0
    for _ in range(3):
        pending += runs_to_request(Backlog(ready, None).claims(batch), pending, cap - pending)
    assert pending == min(-(-ready // batch), cap)


@pytest.mark.parametrize(
    ("wanted", "room", "expected"),
    [
        ({"a": 3, "b": 1, "c": 2}, 9, ["a", "b", "c", "a", "c", "a"]),
        ({"a": 10**9, "b": 1}, 3, ["a", "b", "a"]),
        ({"a": 1}, 0, []),
        ({"a": 1}, -1, []),
        ({}, 5, []),
    ],
)
def test_a_queue_with_a_lot_of_work_leaves_room_for_the_others(
    wanted: dict[str, int], room: int, expected: list[str]
) -> None:
    assert round_robin(wanted, room) == expected


def test_the_queue_whose_oldest_message_has_waited_longest_comes_first() -> None:
    bell = Doorbell("orders", "bell", batch=1, max_in_flight_runs=4, patience_s=60)
    backlogs = {"young": Backlog(9, 1.0), "old": Backlog(1, 7.0), "unknown": Backlog(2, None)}
    wanted = bell.wanted(bell.enough(backlogs), (), dict.fromkeys(backlogs), 4)
    assert list(wanted.items()) == [("old", 1), ("young", 4), ("unknown", 2)]


@pytest.mark.parametrize("parameter", ["batch", "max_in_flight_runs", "min_messages"])
def test_a_doorbell_that_could_never_ring_is_refused_by_parameter(parameter: str) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        build_redis_queue_sensor("flights", target=drain, **{parameter: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(("parameter", "value"), [("max_age", -1), ("claim_for", 0), ("claim_for", float("nan"))])
def test_invalid_durations_raise_an_error_that_names_them(parameter: str, value: float) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        build_redis_queue_sensor("flights", target=drain, **{parameter: value})  # type: ignore[arg-type]


TENANTS = QueuePartitions("orders", dg.DynamicPartitionsDefinition(name="tenants"), most=2)


@given(st.text(min_size=1, max_size=20))
def test_any_value_has_a_valid_partition_key_that_maps_back_to_its_queue(value: str) -> None:
    key = TENANTS.key(value)
    assert "..." not in key
    check_name("queue", TENANTS.queue(value))
    assert TENANTS.value(key) == value
    assert TENANTS.queue_of(key) == TENANTS.queue(value)


@pytest.mark.parametrize("value", ["", "x" * 256, "\n" * 99])
def test_a_value_that_makes_no_partition_key_is_refused(value: str) -> None:
    with pytest.raises(ConfigurationError, match="1 to 255"):
        TENANTS.key(value)


@pytest.mark.parametrize("value", ["A&B", "x/y", "50%", "東京", "Müller & Co", "a:b", "..", "%zz"])
def test_a_value_that_dagster_accepts_is_its_own_key(value: str) -> None:
    """Airflow, Spark and the command line publish to `<prefix>/<value>`."""
    assert TENANTS.queue(value) == f"orders/{value}"
    assert TENANTS.among([f"orders/{value}"]) == {f"orders/{value}": value}


def test_partitions_beyond_the_limit_are_left_out_and_the_known_ones_stay() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        keys = {f"orders/{key}": key for key in "dcba"}
        instance.add_dynamic_partitions("tenants", ["a"])
        assert TENANTS.left_out(keys, instance) == ["orders/c", "orders/b"]
        instance.add_dynamic_partitions("tenants", ["x", "y"])
        assert TENANTS.left_out(keys, instance) == ["orders/d", "orders/c", "orders/b"]
    told = TENANTS.refusal([f"orders/{key}" for key in "abcde"])
    assert "'orders/a', 'orders/b', 'orders/c' and 2 more left out" in told
    assert "most=2" in told
