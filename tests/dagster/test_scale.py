# ruff: noqa: I002 - Dagster compares the annotation of `context` with its own class, so it must not become a string
"""A thousand queues in one code location, and two code locations with the same queue."""

import time
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin  # no public name

from rmq_core import LeasedQueue
from rmq_dagster import QueuePartitions, RedisQueueResource, build_redis_queue_sensor
from rmq_dagster.tags import QUEUE, REPOSITORY, SENSOR

pytestmark = pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning")
MANY, TICK_S = 1000, 1.0


@pytest.fixture
def tenants(queue: LeasedQueue) -> QueuePartitions:
    return QueuePartitions(queue.name, dg.DynamicPartitionsDefinition(name="tenants"))


@pytest.fixture
def published(tenants: QueuePartitions, redis_queue: RedisQueueResource) -> None:
    """A message in each of a thousand queues, published through one resource."""
    for number in range(MANY):
        redis_queue.publish(tenants.queue(f"t{number}"), ["a"])


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("max_in_flight_runs", [10, 100])
def test_a_tick_over_a_thousand_queues_takes_less_than_a_second(
    tenants: QueuePartitions, redis_queue: RedisQueueResource, instance: dg.DagsterInstance, max_in_flight_runs: int
) -> None:
    @dg.asset(partitions_def=tenants.definition)
    def orders() -> None: ...

    resources = {"redis_queue": redis_queue}
    bell = build_redis_queue_sensor(tenants, target=orders, name="bell", max_in_flight_runs=max_in_flight_runs)
    instance.add_dynamic_partitions("tenants", [f"t{number}" for number in range(0, MANY, 2)])
    took = []
    for _ in range(3):  # the fastest of them, because other work shares this machine
        with dg.build_sensor_context(instance, resources=resources, sensor_name="bell") as context:
            started = time.perf_counter()
            result: Any = bell(context)
        took.append(time.perf_counter() - started)
        assert len(result.run_requests) == max_in_flight_runs
    assert min(took) < TICK_S, took


def test_the_same_sensor_in_two_code_locations_loses_and_repeats_no_message(
    queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    """Each counts its own runs. Both request some; a run that finds nothing left succeeds, and no lease is touched."""
    worked: list[Any] = []
    resources = {"redis_queue": redis_queue}
    bell = build_redis_queue_sensor(queue.name, target="loaded", name="bell", batch=10)

    def tick(location: str) -> int:
        with dg.build_sensor_context(
            instance, resources=resources, sensor_name="bell", repository_name="__repository__"
        ) as context:
            context._code_location_origin = RegisteredCodeLocationOrigin(location)
            result: Any = bell(context)
        return len(result.run_requests or ())

    @dg.asset
    def loaded(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> None:
        with redis_queue.claimed(context, queue.name) as batch:
            assert [tick(location) for location in ("a", "b")] == [0, 0]  # both tick while a run holds the messages
            worked.extend(batch.payloads)

    queue.publish_many(["x", "y"])
    assert [tick(location) for location in ("a", "b")] == [1, 1]
    for location in ("a", "b"):
        tags = {QUEUE: queue.name, SENSOR: "bell", REPOSITORY: f"__repository__@{location}"}
        assert dg.materialize([loaded], instance=instance, resources=resources, tags=tags).success
    assert worked == ["x", "y"]
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
