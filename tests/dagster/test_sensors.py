from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin

from rmq_core import ConfigurationError, LeasedQueue, QueueUnavailable
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor
from rmq_dagster.runs.identity import FENCE, LEASE, QUEUE, REPOSITORY, RUN_KEY, SENSOR
from tests.core.leases import eventually
from tests.dagster.pipeline import CONFIG

Tick = Callable[..., dg.SensorResult]


@dg.op
def nothing() -> None: ...


@dg.job
def drain() -> None:
    nothing()


@pytest.fixture
def tick(queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource) -> Tick:
    """Run one tick of a sensor for `queue`; the test passes the cursor."""

    def evaluate(cursor: str | None = None, location: str | None = None, **options: Any) -> dg.SensorResult:
        sensor = build_redis_queue_sensor(queue.name, target=drain, name="bell", config=CONFIG, **options)
        context = dg.build_sensor_context(
            instance=instance,
            cursor=cursor,
            repository_name="__repository__",
            resources={"redis_queue": redis_queue},
            sensor_name="bell",
        )
        if location:  # the daemon passes it, and there is no public way to do so
            context._code_location_origin = RegisteredCodeLocationOrigin(location)
        with context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        return result

    return evaluate


@pytest.fixture
def requested(queue: LeasedQueue, instance: dg.DagsterInstance) -> Callable[..., dg.DagsterRun]:
    """A run that an earlier tick requested."""

    def create(number: int, status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTED, **tags: str) -> dg.DagsterRun:
        known = {SENSOR: "bell", QUEUE: queue.name, RUN_KEY: f"{queue.name}:{number}"}
        return instance.create_run_for_job(drain, status=status, tags={**known, **tags})

    return create


def keys(result: dg.SensorResult) -> list[str | None]:
    return [request.run_key for request in result.run_requests or ()]


def test_a_tick_requests_one_run_per_batch_numbered_in_its_cursor(tick: Tick, queue: LeasedQueue) -> None:
    queue.publish_many([f"m{number}" for number in range(25)])
    result = tick(batch=10, max_in_flight_runs=8)
    assert keys(result) == [f"{queue.name}:1", f"{queue.name}:2", f"{queue.name}:3"]
    assert result.cursor == "3"


def test_a_tick_claims_nothing_and_a_request_names_no_message(tick: Tick, queue: LeasedQueue) -> None:
    published = queue.publish("canary payload")
    result = tick()
    (request,) = result.run_requests or ()
    assert queue.stats().ready == 1
    assert queue.stats().leases == 0
    assert published.id not in repr(request)
    assert "canary" not in repr(request)
    assert request.tags == {QUEUE: queue.name, FENCE: f"{queue.name}@0"}


def test_unclaimed_runs_never_exceed_the_cap(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun]
) -> None:
    queue.publish_many([f"m{number}" for number in range(100)])
    assert len(keys(tick(batch=1, max_in_flight_runs=3))) == 3
    for number in (1, 2):
        requested(number)
    assert len(keys(tick(cursor="2", batch=1, max_in_flight_runs=3))) == 1


def test_a_run_that_has_yet_to_claim_is_not_requested_again(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun]
) -> None:
    queue.publish("m")
    requested(1, dg.DagsterRunStatus.NOT_STARTED)
    result = tick(cursor="1", max_in_flight_runs=5)
    assert keys(result) == []
    assert "1 run(s) of this sensor have yet to claim" in str(result.skip_reason)


def test_a_run_that_holds_a_lease_does_not_suppress_further_requests(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun]
) -> None:
    queue.publish_many(["a", "b"])
    run = requested(1)
    queue.claim(lease_id="work", owner=run.run_id)
    assert keys(tick(cursor="1")) == [f"{queue.name}:2"]


def test_messages_that_a_run_claims_during_a_tick_are_not_requested_again(
    tick: Tick,
    queue: LeasedQueue,
    instance: dg.DagsterInstance,
    requested: Callable[..., dg.DagsterRun],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue.publish_many(["a", "b"])
    run, records = requested(1), instance.get_run_records

    def claimed_meanwhile(*args: Any, **options: Any) -> Any:
        queue.claim(lease_id="work", owner=run.run_id)
        return records(*args, **options)

    monkeypatch.setattr(instance, "get_run_records", claimed_meanwhile)
    assert keys(tick(cursor="1")) == [f"{queue.name}:2"]


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
def test_a_run_that_ended_before_its_claim_is_requested_again_under_a_new_key(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun], status: dg.DagsterRunStatus
) -> None:
    queue.publish("m")
    requested(1, status)
    assert keys(tick(cursor="1")) == [f"{queue.name}:2"]


def test_a_run_that_never_claims_suppresses_requests_for_a_limited_time_but_counts_for_the_cap(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun]
) -> None:
    queue.publish("m")
    requested(1)
    assert keys(tick(cursor="1", max_in_flight_runs=2, repeat_after=60)) == []
    assert keys(tick(cursor="1", max_in_flight_runs=2, repeat_after=0)) == [f"{queue.name}:2"]
    assert keys(tick(cursor="1", max_in_flight_runs=1, repeat_after=0)) == []


def test_runs_of_other_sensors_and_other_queues_do_not_count(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun]
) -> None:
    queue.publish("m")
    requested(1, **{SENSOR: "another bell"})
    requested(2, **{QUEUE: "another queue"})
    assert keys(tick(cursor="1")) == [f"{queue.name}:2"]


def test_runs_of_other_code_locations_do_not_count(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun]
) -> None:
    queue.publish("m")
    requested(1, **{REPOSITORY: "__repository__@staging"})
    assert keys(tick(cursor="1", location="prod")) == [f"{queue.name}:2"]
    assert keys(tick(cursor="1", location="staging")) == []


def test_a_claim_of_a_tick_waits_for_the_run_of_its_own_code_location(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun]
) -> None:
    """It does not wait for a run of another location, which may have ended long ago."""
    queue.publish("m")
    assert keys(tick(location="prod", claim_for=60)) == [f"{queue.name}:1"]
    (lease,) = queue.admin.leases()
    requested(1, dg.DagsterRunStatus.NOT_STARTED, **{LEASE: lease.id, REPOSITORY: "__repository__@prod"})
    requested(1, dg.DagsterRunStatus.FAILURE, **{LEASE: lease.id, REPOSITORY: "__repository__@staging"})
    assert keys(tick(cursor="1", location="prod", claim_for=60)) == []
    assert [held.id for held in queue.admin.leases()] == [lease.id]


def test_two_code_locations_with_the_same_sensor_use_different_lease_ids(tick: Tick, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b"])
    for location in ("prod", "staging"):
        assert len(keys(tick(cursor="4", location=location, claim_for=60, max_in_flight_runs=1))) == 1
    held = {lease.id: (lease.owner, lease.takeovers) for lease in queue.admin.leases()}
    assert held == {
        f"bell@__repository__@{location}/5": (f"bell@__repository__@{location}", 0) for location in ("prod", "staging")
    }


@pytest.mark.parametrize("cursor", [None, "", "reset by hand"])
def test_a_lost_cursor_never_repeats_a_run_key_that_dagster_would_skip(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun], cursor: str | None
) -> None:
    queue.publish("m")
    for number in (8, 9, 10):
        requested(number, dg.DagsterRunStatus.SUCCESS)
    assert keys(tick(cursor=cursor)) == [f"{queue.name}:11"]


def test_every_tick_requests_runs_while_there_is_work(tick: Tick, queue: LeasedQueue) -> None:
    queue.publish("m")
    first = tick()
    assert keys(tick(cursor=first.cursor)) == [f"{queue.name}:2"]


def test_an_expired_lease_causes_a_request(tick: Tick, queue: LeasedQueue) -> None:
    queue.publish("m")
    queue.claim(lease=0.05)
    time.sleep(0.1)
    assert len(keys(tick())) == 1


@pytest.mark.usefixtures("soon_given_up")
def test_an_unreachable_redis_fails_the_tick_without_showing_the_password(instance: dg.DagsterInstance) -> None:
    resource = RedisQueueResource(url="redis://127.0.0.1:1", username="worker", password="canary-4711")
    sensor = build_redis_queue_sensor("flights", target=drain)
    with (
        dg.build_sensor_context(instance=instance, resources={"redis_queue": resource}) as context,
        pytest.raises(QueueUnavailable) as raised,
    ):
        sensor(context)
    assert "canary" not in f"{raised.value!r} {raised.value.__cause__!r}"


def test_a_doorbell_of_some_groups_does_not_ring_for_others(tick: Tick, queue: LeasedQueue) -> None:
    queue.admin.configure(groups="exclusive")
    ring = partial(tick, groups=["north", "south"], batch=2)
    queue.publish_many(["e1", "e2", "e3"], group="east")
    quiet = ring()
    assert keys(quiet) == []
    assert "nothing ready in the groups 'north', 'south'" in str(quiet.skip_reason)
    queue.publish_many(["n1", "n2", "n3"], group="north")
    assert len(keys(ring())) == 2
    held = queue.claim(groups=["north"], lease=0.2)  # so nobody may claim the others of this group
    assert held
    assert keys(ring()) == []
    eventually(lambda: len(keys(ring())) == 2)  # the worker died, and the tick reclaims its lease
    assert keys(tick(groups=["west"])) == []


def test_a_tick_that_claims_takes_messages_of_its_groups(tick: Tick, queue: LeasedQueue) -> None:
    queue.admin.configure(groups="fair")
    queue.publish_many(["e1", "e2", "e3"], group="east")
    queue.publish_many(["n1", "n2", "n3"], group="north")
    assert len(keys(tick(groups=["north"], batch=2, claim_for=600))) == 2
    assert {group.name: group.waiting for group in queue.admin.groups()} == {"east": 3}
    assert sum(lease.count for lease in queue.admin.leases()) == 3


def test_a_doorbell_of_some_groups_is_refused_where_the_core_refuses(tick: Tick, queue: LeasedQueue) -> None:
    queue.publish("x")
    with pytest.raises(ConfigurationError, match="groups=fair"):
        tick(groups=["north"])
    queue.admin.configure(groups="fair", rate="50/1m")
    with pytest.raises(ConfigurationError, match="rate"):
        tick(groups=["north"])
    with pytest.raises(ConfigurationError, match="groups must be a list of names"):
        tick(groups="north")
