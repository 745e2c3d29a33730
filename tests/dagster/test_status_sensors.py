from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob  # no public function executes an existing run
from dagster._core.execution.api import execute_run

from rmq_core import LeasedQueue
from rmq_core.reports import LeaseInfo
from rmq_dagster import QueuePartitions, RedisQueueResource, redis_queue_status_sensors
from rmq_dagster.runs.identity import PARTITION, WILL_RETRY
from tests.dagster.pipeline import CONFIG

FAILED, CANCELED = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED
CANCELING = dg.DagsterRunStatus.CANCELING
Ended = Callable[..., None]


@dg.op
def nothing() -> None: ...


@dg.job
def work() -> None:
    nothing()


@pytest.fixture
def run_of(instance: dg.DagsterInstance) -> Callable[..., dg.DagsterRun]:
    def create(status: dg.DagsterRunStatus, **tags: str) -> dg.DagsterRun:
        return instance.create_run_for_job(work, status=status, tags=tags)

    return create


@pytest.fixture
def ended(queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource) -> Ended:
    """Evaluate the status sensor for the final status of a run."""

    def evaluate(run: dg.DagsterRun, queues: str | Sequence[str] | QueuePartitions = "") -> None:
        sensors = redis_queue_status_sensors(queues or queue.name, config=CONFIG)
        context = dg.build_run_status_sensor_context(
            sensor_name="ended",
            dagster_event=dg.DagsterEvent("PIPELINE_FAILURE", run.job_name),
            dagster_instance=instance,
            dagster_run=run,
            resources={"redis_queue": redis_queue},
        )
        with context:
            sensors[[FAILED, CANCELED, CANCELING].index(run.status)](context)

    return evaluate


def test_the_lease_of_a_failed_run_expires_with_the_run_as_its_reason(
    queue: LeasedQueue, run_of: Callable[..., dg.DagsterRun], ended: Ended
) -> None:
    queue.publish_many(["a", "b"])
    run = run_of(FAILED)
    queue.claim(lease_id="work", owner=run.run_id, max_messages=2)
    ended(run)
    assert [(m.payload, m.deliveries, m.history[-1].reason) for m in queue.admin.peek(9)] == [
        ("a", 1, f"run {run.run_id} failed"),
        ("b", 1, f"run {run.run_id} failed"),
    ]


def test_a_kill_in_sequential_work_counts_for_the_message_that_was_in_work_alone(
    queue: LeasedQueue, run_of: Callable[..., dg.DagsterRun], ended: Ended
) -> None:
    queue.publish_many(["a", "b", "c"])
    run = run_of(FAILED)
    lease = queue.claim(lease_id="work", owner=run.run_id, max_messages=3, sequential=True)
    assert lease is not None
    queue.ack(lease, [next(iter(queue.messages(lease)))])
    ended(run)
    assert {m.payload: (m.deliveries, [f.reason for f in m.history]) for m in queue.admin.peek(9)} == {
        "b": (1, [f"run {run.run_id} failed"]),
        "c": (0, []),
    }


def test_the_lease_of_a_canceled_run_is_released(
    queue: LeasedQueue, run_of: Callable[..., dg.DagsterRun], ended: Ended
) -> None:
    queue.publish("a")
    run = run_of(CANCELED)
    queue.claim(lease_id="work", owner=run.run_id)
    ended(run)
    assert [(m.deliveries, m.history) for m in queue.admin.peek(9)] == [(0, ())]


def test_a_failed_run_that_dagster_will_retry_keeps_its_lease(
    queue: LeasedQueue, run_of: Callable[..., dg.DagsterRun], ended: Ended
) -> None:
    queue.publish("a")
    run = run_of(FAILED, **{WILL_RETRY: "true"})
    queue.claim(lease_id="work", owner=run.run_id)
    ended(run)
    assert [lease.owner for lease in queue.admin.leases()] == [run.run_id]


@pytest.mark.parametrize(("max_retries", "kept"), [(1, 1), (0, 0)])
def test_the_sensor_computes_whether_dagster_will_retry_before_dagster_has_recorded_it(
    queue: LeasedQueue, redis_queue: RedisQueueResource, max_retries: int, kept: int
) -> None:
    queue.publish("a")
    retries = {"run_retries": {"enabled": True, "max_retries": max_retries}}
    with dg.DagsterInstance.ephemeral(settings=retries) as instance:
        run = instance.create_run_for_job(work, status=FAILED)
        queue.claim(lease_id="work", owner=run.run_id)
        on_failure, *_ = redis_queue_status_sensors(queue.name, config=CONFIG)
        event = dg.DagsterEvent("PIPELINE_FAILURE", run.job_name)
        given: Any = {"sensor_name": "ended", "dagster_event": event, "dagster_instance": instance}
        with dg.build_run_status_sensor_context(
            **given, dagster_run=run, resources={"redis_queue": redis_queue}
        ) as context:
            on_failure(context)
    assert len(queue.admin.leases()) == kept


@pytest.mark.parametrize("status", [FAILED, CANCELED])
def test_a_late_sensor_does_not_affect_a_running_retry(
    queue: LeasedQueue,
    instance: dg.DagsterInstance,
    redis_queue: RedisQueueResource,
    run_of: Callable[..., dg.DagsterRun],
    ended: Ended,
    status: dg.DagsterRunStatus,
) -> None:
    """The retry is a real run, and the sensor for the previous run ticks while the retry holds the messages."""
    queue.publish_many(["a", "b"])
    before = run_of(status)
    queue.claim(lease_id=f"{before.run_id}/retried", owner=before.run_id, max_messages=2)
    seen: list[Any] = []

    @dg.op
    def retried(context) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  Dagster would compare a string
        with redis_queue.claimed(context, queue.name, config=CONFIG) as batch:
            ended(before)
            seen.append((batch.payloads, [lease.owner for lease in queue.admin.leases()], context.run.run_id))

    @dg.job(executor_def=dg.in_process_executor)
    def retry() -> None:
        retried()

    root = {"dagster/root_run_id": before.run_id, "dagster/parent_run_id": before.run_id}
    made = instance.create_run_for_job(retry, root_run_id=before.run_id, parent_run_id=before.run_id, tags=root)
    result = execute_run(InMemoryJob(retry), made, instance)
    assert result.success
    ((payloads, owners, run_id),) = seen
    assert (payloads, owners) == (["a", "b"], [run_id])
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_retry_that_takes_over_between_the_check_and_the_settle_is_left_alone(
    queue: LeasedQueue,
    run_of: Callable[..., dg.DagsterRun],
    ended: Ended,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue.publish("a")
    run = run_of(FAILED)
    queue.claim(lease_id="work", owner=run.run_id)
    seen: list[LeaseInfo] = queue.admin.leases()
    retry = queue.claim(lease_id="work", owner="the retry")
    assert retry is not None
    monkeypatch.setattr(LeasedQueue.admin, "leases", lambda self, limit=100: seen)
    ended(run)
    assert queue.lease_info("work").owner == "the retry"  # type: ignore[union-attr]
    queue.ack(retry)
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_the_sensor_settles_in_the_queue_of_the_runs_partition(
    queue: LeasedQueue, redis_queue: RedisQueueResource, run_of: Callable[..., dg.DagsterRun], ended: Ended
) -> None:
    tenants = QueuePartitions(queue.name, dg.DynamicPartitionsDefinition(name="tenants"))
    north = redis_queue.queue(tenants.queue("north"), CONFIG)
    north.publish("a")
    run = run_of(CANCELED, **{PARTITION: "north"})
    north.claim(lease_id="work", owner=run.run_id)
    ended(run, tenants)
    assert north.stats()[:5] == (1, 0, 0, 0, 0)
    ended(run_of(CANCELED), tenants)
