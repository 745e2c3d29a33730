# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""A thousand queues in one code location, and two code locations with the same queue."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin  # no public name

from rmq_core import LeasedQueue
from rmq_dagster import QueuePartitions, RedisQueueResource, build_redis_queue_sensor
from rmq_dagster.runs.identity import QUEUE, REPOSITORY, SENSOR

pytestmark = pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning")
MANY = 1000


@pytest.fixture
def tenants(queue: LeasedQueue) -> QueuePartitions:
    return QueuePartitions(queue.name, dg.DynamicPartitionsDefinition(name="tenants"))


@pytest.fixture
def published(tenants: QueuePartitions, redis_queue: RedisQueueResource) -> None:
    """A message in each of a thousand queues, published through one resource."""
    for number in range(MANY):
        redis_queue.publish(tenants.queue(f"t{number}"), ["a"])


@pytest.mark.usefixtures("published")
def test_a_tick_asks_redis_and_dagster_far_less_often_than_once_for_each_queue(
    tenants: QueuePartitions,
    redis_queue: RedisQueueResource,
    instance: dg.DagsterInstance,
    queue: LeasedQueue,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dg.asset(partitions_def=tenants.definition)
    def orders() -> None: ...

    bell = build_redis_queue_sensor(tenants, target=orders, name="bell", max_in_flight_runs=10)
    asked: list[str] = []
    for name in ("get_dynamic_partitions", "has_dynamic_partition", "get_runs", "get_run_records"):
        monkeypatch.setattr(instance, name, counted(getattr(instance, name), asked))

    instance.add_dynamic_partitions("tenants", [f"t{number}" for number in range(0, MANY, 2)])
    asked.clear()
    before = reads(queue)
    with dg.build_sensor_context(instance, resources={"redis_queue": redis_queue}, sensor_name="bell") as context:
        result: Any = bell(context)
    assert len(result.run_requests) == 10
    assert len(asked) < 20
    assert reads(queue) - before < MANY / 2


def counted(call: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    """Return the call; it notes each use."""

    def noted(*args: Any, **kwargs: Any) -> Any:
        calls.append(call.__name__)
        return call(*args, **kwargs)

    return noted


def reads(queue: LeasedQueue) -> int:
    """Return how many times clients have written to their sockets: each is a round trip, however much it asks."""
    return int(queue.client.info("stats")["total_reads_processed"])


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
