from __future__ import annotations

import uuid
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor, redis_queue_status_sensors
from rmq_dagster.runs import holders
from rmq_dagster.runs.claiming import kept_s
from rmq_dagster.runs.identity import AUTO_RETRY, ROOT, WILL_RETRY
from tests.dagster.pipeline import CONFIG

FAILED, CANCELED, CANCELING = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.CANCELING
STARTED, SUCCESS = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS
WAITING = dg.DagsterRunStatus.NOT_STARTED
START, UP_FOR_RETRY = dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_UP_FOR_RETRY
RunOf = Callable[..., dg.DagsterRun]
BACK, HELD = (1, 0, 0, 0, 0), (0, 0, 1, 1, 0)


@dg.op
def nothing() -> None: ...


@dg.job
def drain() -> None:
    nothing()


@pytest.fixture
def run_of(instance: dg.DagsterInstance) -> RunOf:
    def create(status: dg.DagsterRunStatus, parent: dg.DagsterRun | None = None, **tags: str) -> dg.DagsterRun:
        group = {"root_run_id": parent.run_id, "parent_run_id": parent.run_id} if parent else {}
        known = {ROOT: parent.run_id} if parent else {}
        return instance.create_run_for_job(drain, status=status, tags={**known, **tags}, **group)

    return create


@pytest.fixture
def tick(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> Callable[..., dg.SensorResult]:
    def evaluate(**options: Any) -> dg.SensorResult:
        sensor = build_redis_queue_sensor(queue.name, target=drain, name="bell", config=CONFIG, **options)
        given: dict[str, Any] = {"resources": {"redis_queue": redis_queue}, "sensor_name": "bell"}
        with dg.build_sensor_context(instance=instance, **given) as context:
            result = sensor(context)
        assert isinstance(result, dg.SensorResult)
        return result

    return evaluate


@pytest.fixture
def keep(queue: LeasedQueue) -> Callable[..., str]:
    """Claim a message as a try that kept it for its retry; return the lease id."""

    def kept(owner: str, lease_id: str | None = None, seconds: float | None = None) -> str:
        queue.publish("a")
        lease = queue.claim(lease_id=lease_id or f"{owner}/nothing", owner=owner)
        assert lease is not None
        queue.extend(lease, kept_s(CONFIG, 0) if seconds is None else seconds)
        return lease.id

    return kept


def step(instance: dg.DagsterInstance, run: dg.DagsterRun, *kinds: dg.DagsterEventType) -> None:
    """Write the events that Dagster records for the only step of a run."""
    for kind in kinds:
        event = dg.DagsterEvent(kind.value, run.job_name, step_key="nothing")
        instance.report_dagster_event(event, run.run_id)


Tick, Keep = Callable[..., dg.SensorResult], Callable[..., str]


def test_a_tick_releases_the_lease_of_a_canceled_run_and_requests_a_run_at_once(
    tick: Tick, queue: LeasedQueue, run_of: RunOf, keep: Keep
) -> None:
    keep(run_of(CANCELED).run_id)
    assert len(tick().run_requests or ()) == 1
    assert [(message.deliveries, message.history) for message in queue.admin.peek(9)] == [(0, ())]


def test_a_tick_releases_the_lease_kept_for_a_deleted_run(
    tick: Tick, queue: LeasedQueue, instance: dg.DagsterInstance, run_of: RunOf, keep: Keep
) -> None:
    run = run_of(STARTED)
    keep(run.run_id)
    tick()
    assert queue.stats()[:5] == HELD
    instance.delete_run(run.run_id)
    tick()
    assert queue.stats()[:5] == BACK
    assert [(message.deliveries, message.history) for message in queue.admin.peek(9)] == [(0, ())]


@pytest.mark.parametrize("owner", ["airflow/dag/task", "bell", "8d7c", "8d7c5e2a-1f0b-4a57-9d35-6f1f1b2f7c11/1"])
def test_a_lease_whose_owner_is_not_a_run_is_left_alone(tick: Tick, queue: LeasedQueue, keep: Keep, owner: str) -> None:
    keep(owner, f"{uuid.uuid4()}/nothing")
    tick()
    assert queue.stats()[:5] == HELD


def test_a_lease_of_an_unknown_holder_is_left_alone_whatever_its_name(
    tick: Tick, queue: LeasedQueue, keep: Keep
) -> None:
    """It may be a run of another Dagster, or a deleted run that still works and sends heartbeats."""
    keep(str(uuid.uuid4()), seconds=int(CONFIG.lease_ms) / 1000)
    keep(str(uuid.uuid4()), "a lease of somebody's own")
    tick()
    assert queue.stats()[:5] == (0, 0, 2, 2, 0)


@pytest.mark.parametrize("status", [WAITING, STARTED])
def test_the_lease_of_an_unfinished_run_is_left_alone(
    tick: Tick, queue: LeasedQueue, run_of: RunOf, keep: Keep, status: dg.DagsterRunStatus
) -> None:
    keep(run_of(status).run_id)
    tick()
    assert queue.stats()[:5] == HELD


def test_a_kept_lease_is_released_when_its_run_is_being_canceled_and_no_step_runs(
    tick: Tick, queue: LeasedQueue, instance: dg.DagsterInstance, run_of: RunOf, keep: Keep
) -> None:
    run = run_of(CANCELING)
    keep(run.run_id)
    step(instance, run, START)
    tick()
    assert queue.stats()[:5] == HELD
    step(instance, run, UP_FOR_RETRY)
    tick()
    assert queue.stats()[:5] == BACK


def test_the_sensor_for_runs_that_are_being_canceled_releases_a_kept_lease_too(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource, run_of: RunOf, keep: Keep
) -> None:
    run = run_of(CANCELING)
    keep(run.run_id)
    *_, on_canceling = redis_queue_status_sensors(queue.name, config=CONFIG)

    def evaluate() -> None:
        given: Any = {"sensor_name": on_canceling.name, "dagster_instance": instance, "dagster_run": run}
        event = dg.DagsterEvent("PIPELINE_CANCELING", run.job_name)
        resources = {"redis_queue": redis_queue}
        with dg.build_run_status_sensor_context(**given, dagster_event=event, resources=resources) as context:
            on_canceling(context)

    step(instance, run, START)
    evaluate()
    assert queue.stats()[:5] == HELD
    step(instance, run, UP_FOR_RETRY)
    evaluate()
    assert queue.stats()[:5] == BACK


def test_the_lease_of_a_run_that_failed_finally_is_nacked(
    tick: Tick, queue: LeasedQueue, run_of: RunOf, keep: Keep
) -> None:
    run = run_of(FAILED)
    keep(run.run_id)
    tick()
    (message,) = queue.admin.peek(9)
    assert (message.deliveries, message.history[-1].reason) == (1, f"run {run.run_id} failed")


def test_a_run_that_has_only_just_finished_may_still_settle(
    tick: Tick, queue: LeasedQueue, instance: dg.DagsterInstance, run_of: RunOf, keep: Keep,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(holders, "SETTLING_S", 3600)
    run = run_of(STARTED)
    keep(run.run_id)
    instance.report_run_failed(run)
    tick()
    assert queue.stats()[:5] == HELD
    monkeypatch.setattr(holders, "SETTLING_S", 0)
    tick()
    assert queue.stats()[:5] == BACK


def test_the_lease_of_a_failed_run_waits_for_its_retry_until_that_is_canceled_or_deleted(
    tick: Tick, queue: LeasedQueue, instance: dg.DagsterInstance, run_of: RunOf, keep: Keep
) -> None:
    for end in (instance.report_run_canceled, lambda retry: instance.delete_run(retry.run_id)):
        run = run_of(FAILED, **{WILL_RETRY: "true"})
        keep(run.run_id)
        tick()
        assert queue.stats().leases == 1, "its retry is yet to be made"
        retry = run_of(WAITING, parent=run)
        instance.add_run_tags(run.run_id, {AUTO_RETRY: retry.run_id})
        tick()
        assert queue.stats().leases == 1, "its retry waits"
        end(retry)
        tick()
        assert queue.stats().leases == 0
    assert [(message.deliveries, message.history) for message in queue.admin.peek(9)] == [(0, ())] * 2


def test_an_unfinished_manual_re_execution_takes_over_what_its_run_left(
    tick: Tick, queue: LeasedQueue, instance: dg.DagsterInstance, run_of: RunOf, keep: Keep
) -> None:
    run = run_of(FAILED)
    keep(run.run_id)
    retry = run_of(STARTED, parent=run)
    tick()
    assert queue.stats()[:5] == HELD
    instance.report_run_canceled(retry)
    tick()
    assert queue.stats()[:5] == BACK


def test_a_tick_queries_dagster_twice_for_any_number_of_leases(
    tick: Tick, queue: LeasedQueue, instance: dg.DagsterInstance, run_of: RunOf, keep: Keep,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for _ in range(10):
        keep(run_of(FAILED, **{WILL_RETRY: "true"}).run_id)
        keep(run_of(STARTED).run_id)
    asked: list[Any] = []
    for name in ("get_run_records", "get_runs"):
        real = getattr(instance, name)
        monkeypatch.setattr(instance, name, lambda *args, real=real, **more: asked.append(args) or real(*args, **more))
    list(holders.settle_ended(instance, [queue]))
    assert len(asked) == 2
    assert queue.stats().leases == 20


@pytest.fixture
def ended() -> Any:
    (found,) = [point for point in entry_points(group="rmq.holders") if point.name == "dagster"]
    return found.load()


def test_the_doctor_reports_the_holders_that_have_ended_and_why(on_disk: dg.DagsterInstance, ended: Any) -> None:
    canceled, at_work = (on_disk.create_run_for_job(drain, status=status).run_id for status in (CANCELED, STARTED))
    deleted = str(uuid.uuid4())
    told = ended([canceled, at_work, deleted, "airflow/dag/task"])
    assert told.keys() == {canceled, deleted}
    assert told[canceled] == (f"run {canceled} was canceled", False)
    assert "it was deleted, or belongs to another Dagster instance" in told[deleted][0]


def test_without_a_usable_instance_the_doctor_reports_no_holder(
    ended: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    assert ended([str(uuid.uuid4())]) == {}
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere/at/all")
    assert ended([str(uuid.uuid4())]) == {}
    assert "Cannot read run statuses from Dagster" in caplog.text
