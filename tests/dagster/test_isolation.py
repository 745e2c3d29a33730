# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
"""Messages that failed together, as sensors ask for runs of them and runs get them; nothing is faked."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster import QueuePartitions, RedisQueueResource, build_redis_queue_sensor
from rmq_dagster.runs.identity import CLAIMED, ISOLATED, LEASE, QUEUE, SENSOR
from tests.dagster.pipeline import CONFIG

Tick = Callable[..., list[dg.RunRequest]]
Launch = Callable[[dg.RunRequest], dg.ExecuteInProcessResult]
FRESH = [f"fresh {number}" for number in range(30)]


@dg.op(required_resource_keys={"redis_queue"})
def work(context) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  Dagster would compare a string
    name = context.run.tags[QUEUE]
    with context.resources.redis_queue.claimed(context, name, max_messages=30, config=CONFIG) as batch:
        context.add_output_metadata(batch.metadata)
        if "bad" in batch.payloads:
            raise ValueError


@pytest.fixture
def drain(redis_queue: RedisQueueResource) -> dg.JobDefinition:
    @dg.job(resource_defs={"redis_queue": redis_queue})
    def drain() -> None:
        work()

    return drain


@pytest.fixture
def tick(drain: dg.JobDefinition, instance: dg.DagsterInstance, redis_queue: RedisQueueResource) -> Tick:
    def evaluate(queue: str | QueuePartitions, **options: Any) -> list[dg.RunRequest]:
        sensor = build_redis_queue_sensor(queue, target=drain, name="bell", batch=30, config=CONFIG, **options)
        given: dict[str, Any] = {"resources": {"redis_queue": redis_queue}, "sensor_name": "bell"}
        with dg.build_sensor_context(instance=instance, **given) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        return list(result.run_requests or ())

    return evaluate


@pytest.fixture
def launched(drain: dg.JobDefinition, instance: dg.DagsterInstance) -> Launch:
    """Create the run that the daemon creates for a request."""

    def execute(request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        tags = {SENSOR: "bell", **(request.tags or {})}
        return drain.execute_in_process(instance=instance, raise_on_error=False, tags=tags)

    return execute


def failed_together(queue: LeasedQueue, messages: int = 30) -> None:
    """Publish messages, and let all of them fail together twice."""
    queue.publish_many(["bad", *(f"m{number}" for number in range(1, messages))])
    for _ in range(2):
        lease = queue.claim(max_messages=messages)
        assert lease is not None
        queue.nack(lease)


def test_a_tick_requests_one_run_for_each_claim_of_isolated_messages(tick: Tick, queue: LeasedQueue) -> None:
    failed_together(queue)
    assert len(tick(queue.name)) == 2
    queue.publish_many(FRESH)
    assert len(tick(queue.name)) == 3


def test_each_claim_of_isolated_messages_of_a_partition_gets_a_run(
    tick: Tick, queue: LeasedQueue, redis_url: str
) -> None:
    tenants = QueuePartitions(f"of {queue.name}", dg.DynamicPartitionsDefinition(name="tenants"))
    with LeasedQueue(redis_url, tenants.queue("north"), CONFIG) as north:
        failed_together(north)
        north.publish_many(FRESH)
    with LeasedQueue(redis_url, tenants.queue("south"), CONFIG) as south:
        south.publish_many(FRESH)
    assert sorted(str(request.partition_key) for request in tick(tenants)) == ["north"] * 3 + ["south"]


def test_a_claiming_tick_makes_a_claim_for_every_run_it_requests(
    tick: Tick, queue: LeasedQueue, launched: Launch
) -> None:
    failed_together(queue)
    queue.publish_many(FRESH)
    asked = tick(queue.name, claim_for=60)
    assert [request.tags[LEASE] for request in asked] == ["bell/1", "bell/2", "bell/3"]
    assert sorted((lease.count, lease.isolation is not None) for lease in queue.admin.leases()) == [
        (15, True),
        (15, True),
        (30, False),
    ]
    assert sorted(launched(request).success for request in asked) == [False, True, True]
    assert queue.stats()[:5] == (15, 0, 0, 0, 0)


def test_runs_find_the_bad_message_by_halving_and_report_it(
    tick: Tick, queue: LeasedQueue, launched: Launch, instance: dg.DagsterInstance
) -> None:
    failed_together(queue, 8)
    claimed, said = [], []
    while (left := queue.backlog()).ready > 1 or not claimed:
        assert left.ready <= 8
        result = launched(tick(queue.name)[0])
        run = instance.get_run_by_id(result.run_id)
        assert run is not None
        claimed.append(int(run.tags[CLAIMED]))
        assert run.tags[ISOLATED] == "true"
        said += [entry.user_message for entry in instance.all_logs(run.run_id) if "got" in entry.user_message]
    assert claimed[:2] == [4, 4]
    assert len(claimed) <= 6
    assert said[0].startswith("got 4 of 30: these have failed together before")
    assert len(said) == len(claimed)
    assert [message.payload for message in queue.admin.peek(9)] in ([], ["bad"])
