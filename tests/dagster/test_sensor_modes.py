from __future__ import annotations

import datetime as dt
import socket
import time
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as sa

from rmq_core import LeasedQueue, QueueUnavailable
from rmq_dagster import QueuePartitions, RedisQueueResource, build_redis_queue_sensor
from rmq_dagster.resources import TICK_RETRY_BUDGET_S, TICK_TIMEOUT_S
from rmq_dagster.runs.identity import LEASE, QUEUE, SENSOR, TICK
from tests.dagster.pipeline import CONFIG

Tick = Callable[..., dg.SensorResult]
DAGSTERS_PATIENCE_S = 60


@dg.op(required_resource_keys={"redis_queue"})
def work(context) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  Dagster would compare a string
    name = context.run.tags[QUEUE]
    with context.resources.redis_queue.claimed(context, name, config=CONFIG) as batch:
        context.log.info("worked on %s", batch.payloads)
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
    def evaluate(queue: Any, cursor: str | None = None, **options: Any) -> dg.SensorResult:
        sensor = build_redis_queue_sensor(queue, target=drain, name="bell", config=CONFIG, **options)
        with dg.build_sensor_context(
            instance=instance, cursor=cursor, resources={"redis_queue": redis_queue}, sensor_name="bell"
        ) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        return result

    return evaluate


@pytest.fixture
def launched(drain: dg.JobDefinition, instance: dg.DagsterInstance) -> Callable[..., dg.ExecuteInProcessResult]:
    """Create the run that the daemon creates for a request, or a retry of it."""

    def execute(request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        return drain.execute_in_process(
            instance=instance, raise_on_error=False, tags={SENSOR: "bell", **(request.tags or {})}
        )

    return execute


def requests(result: dg.SensorResult) -> list[dg.RunRequest]:
    return list(result.run_requests or ())


def test_a_tick_below_the_threshold_is_skipped_with_a_reason(tick: Tick, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b"])
    result = tick(queue.name, min_messages=3)
    assert not requests(result)
    assert "2 ready, fewer than min_messages=3" in str(result.skip_reason)
    queue.publish("c")
    assert len(requests(tick(queue.name, min_messages=3, batch=3))) == 1


def test_too_little_work_requests_a_run_when_it_has_waited_long_enough(tick: Tick, queue: LeasedQueue) -> None:
    queue.publish("a")
    assert not requests(tick(queue.name, min_messages=3, max_age=60))
    time.sleep(0.3)
    assert len(requests(tick(queue.name, min_messages=3, max_age=0.2))) == 1


def test_a_paused_queue_gets_no_runs_and_the_skip_reason_says_so(tick: Tick, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b"])
    queue.admin.pause()
    result = tick(queue.name, max_age=0.001)
    assert not requests(result)
    assert f"{queue.name!r} is paused, with 2 ready" in str(result.skip_reason)
    queue.admin.resume()
    assert len(requests(tick(queue.name))) == 2


@pytest.fixture
def nobody_claims(instance: dg.DagsterInstance) -> Callable[[dg.SensorResult, float], None]:
    """Let the runs of a tick end at once, some time ago, without a claim: their job does not claim from this queue."""

    def end(result: dg.SensorResult, ago_s: float) -> None:
        @dg.job
        def other() -> None: ...

        tags = {SENSOR: "bell", TICK: str(time.monotonic_ns())}
        for request in requests(result):
            run = instance.create_run_for_job(
                other, status=dg.DagsterRunStatus.SUCCESS, tags={**tags, **(request.tags or {})}
            )
            moment = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=ago_s)
            with instance.run_storage.connect() as storage:  # type: ignore[attr-defined]
                storage.execute(
                    sa.text("update runs set update_timestamp = :at where run_id = :id"),
                    {"at": moment.replace(tzinfo=None).isoformat(" "), "id": run.run_id},
                )

    return end


def test_runs_that_end_without_a_claim_make_the_next_requests_wait_longer_each_time(
    tick: Tick, queue: LeasedQueue, nobody_claims: Callable[[dg.SensorResult, float], None]
) -> None:
    queue.publish_many(["a", "b", "c"])
    nobody_claims(tick(queue.name), 5)
    result = tick(queue.name)
    assert not requests(result)
    assert "3 ready, but the runs of the last 1 request(s) have ended and nothing was claimed" in str(
        result.skip_reason
    )
    assert "after 20 s, or a claim" in str(result.skip_reason)
    queue.claim()  # of any consumer
    queue.publish("d")
    nobody_claims(tick(queue.name), 25)
    nobody_claims(tick(queue.name), 25)
    assert "after 40 s, or a claim" in str(tick(queue.name).skip_reason)


def test_a_queue_whose_runs_claim_nothing_stops_no_other(
    tick: Tick, queue: LeasedQueue, redis_url: str, nobody_claims: Callable[[dg.SensorResult, float], None]
) -> None:
    tenants = QueuePartitions(queue.name, dg.DynamicPartitionsDefinition(name="tenants"))
    with LeasedQueue(redis_url, tenants.queue("a"), CONFIG) as one:
        one.publish("x")
        nobody_claims(tick(tenants), 5)
        with LeasedQueue(redis_url, tenants.queue("b"), CONFIG) as other:
            other.publish("y")
            assert [request.tags[QUEUE] for request in requests(tick(tenants))] == [other.name]


def test_a_tick_times_out_after_ten_seconds_when_redis_does_not_answer(
    instance: dg.DagsterInstance, drain: dg.JobDefinition
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        resource = RedisQueueResource(url=f"redis://127.0.0.1:{silent.getsockname()[1]}")
        sensor = build_redis_queue_sensor("flights", target=drain)
        started = time.monotonic()
        with (
            dg.build_sensor_context(instance=instance, resources={"redis_queue": resource}) as context,
            pytest.raises(QueueUnavailable),
        ):
            sensor(context)
        assert time.monotonic() - started < DAGSTERS_PATIENCE_S
    # On a machine that does nothing else: the last try begins within the budget, and connects, and reads.
    assert TICK_RETRY_BUDGET_S + 2 * TICK_TIMEOUT_S < 10


@pytest.mark.usefixtures("soon_given_up")
def test_the_tick_after_an_outage_of_redis_recovers(
    queue: LeasedQueue, instance: dg.DagsterInstance, drain: dg.JobDefinition, redis_queue: RedisQueueResource
) -> None:
    queue.publish("a")
    sensor = build_redis_queue_sensor(queue.name, target=drain, name="bell", config=CONFIG)

    def evaluate(resource: RedisQueueResource) -> Any:
        resources = {"redis_queue": resource}
        with dg.build_sensor_context(instance=instance, resources=resources, sensor_name="bell") as context:
            return sensor(context)

    with pytest.raises(QueueUnavailable):
        evaluate(RedisQueueResource(url="redis://127.0.0.1:1"))
    assert len(requests(evaluate(redis_queue))) == 1


def test_two_sensors_of_the_same_name_on_one_queue_are_refused_by_dagster(drain: dg.JobDefinition) -> None:
    twins = [build_redis_queue_sensor("flights", target=drain, batch=batch) for batch in (1, 2)]
    defs = dg.Definitions(sensors=twins)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="flights_doorbell"):
        dg.Definitions.validate_loadable(defs)


@pytest.fixture
def tenants(queue: LeasedQueue) -> QueuePartitions:
    return QueuePartitions(f"orders of {queue.name}", dg.DynamicPartitionsDefinition(name="tenants"))


def test_each_queue_with_work_is_a_partition_that_is_added_once(
    tick: Tick, tenants: QueuePartitions, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    redis_queue.publish(tenants.queue("north/1"), ["a", "b"], config=CONFIG)
    redis_queue.publish(tenants.queue("a...b\n"), ["c"], config=CONFIG)
    result = tick(tenants)
    assert sorted((r.partition_key, r.tags[QUEUE]) for r in requests(result)) == [
        ("a%2E%2E%2Eb%0A", tenants.queue("a...b\n")),
        ("north/1", tenants.queue("north/1")),
        ("north/1", tenants.queue("north/1")),
    ]
    (added,) = result.dynamic_partitions_requests or ()
    assert sorted(added.partition_keys) == ["a%2E%2E%2Eb%0A", "north/1"]
    instance.add_dynamic_partitions("tenants", added.partition_keys)
    assert not tick(tenants, cursor="3").dynamic_partitions_requests


def test_queues_that_other_programs_named_are_served_and_one_that_dagster_refuses_is_named(
    tick: Tick, tenants: QueuePartitions, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    for value in ("A&B", "x/y", "50%", "東京", "M%C3%BCller"):
        redis_queue.publish(f"{tenants.prefix}/{value}", ["a"], config=CONFIG)
    redis_queue.publish(f"{tenants.prefix}/a...b", ["a"], config=CONFIG)
    result = tick(tenants)
    assert {r.partition_key: r.tags[QUEUE] for r in requests(result)} == {
        value: f"{tenants.prefix}/{value}" for value in ("A&B", "x/y", "50%", "東京", "M%C3%BCller")
    }
    (added,) = result.dynamic_partitions_requests or ()
    instance.add_dynamic_partitions("tenants", added.partition_keys)  # Dagster checks them
    for value in ("A&B", "x/y", "50%", "東京", "M%C3%BCller"):
        redis_queue.queue(f"{tenants.prefix}/{value}", CONFIG).admin.purge("ready")
    assert f"'{tenants.prefix}/a...b' left out, all others served" in str(tick(tenants, cursor="9").skip_reason)


def test_partitions_share_the_available_runs(
    tick: Tick, tenants: QueuePartitions, redis_queue: RedisQueueResource
) -> None:
    redis_queue.publish(tenants.queue("large"), [f"m{number}" for number in range(100)], config=CONFIG)
    redis_queue.publish(tenants.queue("small"), ["a"], config=CONFIG)
    asked = [request.partition_key for request in requests(tick(tenants, max_in_flight_runs=4))]
    assert sorted(filter(None, asked)) == ["large", "large", "large", "small"]


def test_only_the_partition_beyond_the_limit_is_left_out_and_the_tick_reports_it(
    tick: Tick, queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    tenants = QueuePartitions(f"orders of {queue.name}", dg.DynamicPartitionsDefinition(name="tenants"), most=2)
    instance.add_dynamic_partitions("tenants", ["north", "south"])
    for tenant in ("north", "suoth", "south"):
        redis_queue.publish(tenants.queue(tenant), ["a"], config=CONFIG)
    result = tick(tenants)
    assert sorted(filter(None, (request.partition_key for request in requests(result)))) == ["north", "south"]
    assert not result.dynamic_partitions_requests
    for tenant in ("north", "south"):
        redis_queue.queue(tenants.queue(tenant), CONFIG).admin.purge("ready")
    told = str(tick(tenants, cursor="2").skip_reason)
    assert f"{tenants.queue('suoth')!r} left out, all others served: there are most=2 partitions 'tenants'" in told
    wrong = redis_queue.queue(tenants.queue("suoth"), CONFIG)
    wrong.admin.purge("ready")
    wrong.admin.unregister()
    assert "nothing ready" in str(tick(tenants, cursor="2").skip_reason)


def test_a_tick_over_ten_thousand_partitions_sends_redis_at_most_a_hundred_requests(
    tick: Tick, tenants: QueuePartitions, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    """One request for each queue would be thirty thousand requests. tests/faults measures how long that takes."""
    names = [f"tenant {number}" for number in range(10_000)]
    for lo in range(0, len(names), 500):
        instance.add_dynamic_partitions("tenants", names[lo : lo + 500])
    with redis_queue.client() as client:
        client.sadd("rmq:queues", *map(tenants.queue, names))
        for name in names[:3]:
            redis_queue.publish(tenants.queue(name), ["a"], config=CONFIG)
        tick(tenants)  # sends the scripts, which a new server does not have
        before = calls(client)
        result = tick(tenants)
        assert calls(client) - before <= 100
        client.srem("rmq:queues", *map(tenants.queue, names))
    assert {request.partition_key for request in requests(result)} == set(names[:3])


def calls(client: Any) -> int:
    """Return how many commands ran, in scripts too, except EXISTS: one script calls that for a thousand queues."""
    stats = client.info("commandstats")
    return sum(about["calls"] for name, about in stats.items() if name != "cmdstat_exists")


@pytest.fixture
def deliveries(queue: LeasedQueue) -> Callable[[], list[int]]:
    return lambda: [message.deliveries for message in queue.admin.peek(9)]


def test_a_claiming_sensor_claims_a_batch_for_each_run_and_the_run_works_on_it(
    tick: Tick, queue: LeasedQueue, launched: Callable[..., dg.ExecuteInProcessResult]
) -> None:
    queue.publish_many(["a", "b", "c"])
    first, second = requests(tick(queue.name, batch=2, claim_for=60))
    assert [request.tags[LEASE] for request in (first, second)] == ["bell/1", "bell/2"]
    assert queue.stats()[:4] == (0, 0, 3, 2)
    assert launched(second).success
    assert [lease.id for lease in queue.admin.leases()] == ["bell/1"]
    assert launched(first).success
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_the_claim_of_a_tick_that_dagster_aborted_is_repeated_by_the_next_tick(
    tick: Tick, queue: LeasedQueue, deliveries: Callable[[], list[int]]
) -> None:
    queue.publish_many(["a", "b"])
    (first,) = requests(tick(queue.name, cursor="4", batch=2, claim_for=60))
    assert queue.stats()[:4] == (0, 0, 2, 1)
    (again,) = requests(tick(queue.name, cursor="4", batch=2, claim_for=60))
    assert (first.run_key, first.tags) == (again.run_key, again.tags)
    (lease,) = queue.admin.leases()
    assert (lease.id, lease.count) == ("bell/5", 2)
    queue.release(queue.adopt(lease.id))
    assert deliveries() == [0, 0]


@pytest.fixture
def requested(drain: dg.JobDefinition, instance: dg.DagsterInstance) -> Callable[..., dg.DagsterRun]:
    """Create the run that the daemon creates for a request, in the given state."""

    def create(request: dg.RunRequest, status: dg.DagsterRunStatus) -> dg.DagsterRun:
        return instance.create_run_for_job(drain, status=status, tags={SENSOR: "bell", **(request.tags or {})})

    return create


def test_the_claim_of_a_tick_is_held_while_its_run_waits(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun], deliveries: Callable[[], list[int]]
) -> None:
    queue.publish("a")
    asked = tick(queue.name, claim_for=60)
    requested(requests(asked)[0], dg.DagsterRunStatus.NOT_STARTED)
    (claimed,) = queue.admin.leases()
    tick(queue.name, cursor=asked.cursor, claim_for=3600)
    (held,) = queue.admin.leases()
    assert claimed.deadline
    assert held.deadline
    assert (held.deadline - claimed.deadline).total_seconds() > 3000
    queue.release(queue.adopt(held.id))
    assert deliveries() == [0]


@pytest.mark.parametrize("ended", [dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE])
def test_the_claim_of_a_tick_is_released_when_its_run_ended_before_its_claim(
    tick: Tick,
    queue: LeasedQueue,
    requested: Callable[..., dg.DagsterRun],
    ended: dg.DagsterRunStatus,
) -> None:
    queue.publish("a")
    asked = tick(queue.name, claim_for=60)
    requested(requests(asked)[0], ended)
    again = tick(queue.name, cursor=asked.cursor, claim_for=60)
    assert [request.tags[LEASE] for request in requests(again)] == ["bell/2"]
    (lease,) = queue.admin.leases()
    assert lease.id == "bell/2"


def test_the_claim_of_a_tick_is_left_alone_until_dagster_has_launched_its_run(tick: Tick, queue: LeasedQueue) -> None:
    queue.publish("a")
    asked = tick(queue.name, claim_for=60)
    before = queue.admin.leases()
    assert not requests(tick(queue.name, cursor=asked.cursor, claim_for=60))
    assert queue.admin.leases() == before


def test_a_claiming_tick_takes_nothing_from_a_run_that_has_begun(tick: Tick, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b"])
    queue.claim(lease_id="bell/5", owner="a run")
    result = tick(queue.name, cursor="4", claim_for=60)
    assert not requests(result)
    assert result.cursor == "5"
    (lease,) = queue.admin.leases()
    assert lease.owner == "a run"
    assert [request.tags[LEASE] for request in requests(tick(queue.name, cursor="5", claim_for=60))] == ["bell/6"]


def test_a_run_that_starts_after_its_claim_expired_processes_the_next_messages(
    tick: Tick, queue: LeasedQueue, launched: Callable[..., dg.ExecuteInProcessResult]
) -> None:
    queue.publish("a")
    (request,) = requests(tick(queue.name, claim_for=0.05))
    time.sleep(0.1)
    assert queue.backlog().ready == 1
    assert launched(request).success
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_failed_run_of_a_claiming_sensor_nacks_and_its_messages_are_claimed_for_another(
    tick: Tick,
    queue: LeasedQueue,
    launched: Callable[..., dg.ExecuteInProcessResult],
    deliveries: Callable[[], list[int]],
) -> None:
    queue.publish("bad")
    result = tick(queue.name, claim_for=60)
    assert not launched(requests(result)[0]).success
    assert deliveries() == [2]  # the hand-over from the sensor to the run is one of them
    (again,) = requests(tick(queue.name, cursor=result.cursor, claim_for=60))
    assert again.run_key == f"{queue.name}:2"
