"""A killed worker keeps its slot of a pool: it is freed with its messages, and the missing setting is named."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor, redis_queue_status_sensors
from rmq_dagster.runs.holders import pools_of
from tests.dagster.pipeline import CONFIG

POOL = "printers"
SET = {"run_monitoring": {"enabled": True, "free_slots_after_run_end_seconds": 60}}


@dg.op(pool=POOL)
def printed() -> None: ...


@dg.graph
def wrapped() -> None:
    printed()


@dg.job
def printing() -> None:
    wrapped()


@dg.asset(pool=POOL)
def pages() -> None: ...


@dg.multi_asset(specs=[dg.AssetSpec("one"), dg.AssetSpec("two")], pool=POOL)
def both():  # type: ignore[no-untyped-def]  # noqa: ANN201  Dagster requires a tuple, or nothing
    ...


@dg.graph_asset
def leaflet() -> Any:
    return printed()


@pytest.fixture
def home(on_disk: dg.DagsterInstance) -> dg.DagsterInstance:
    """An instance with a pool; in memory, Dagster would not free the slots of its runs."""
    on_disk.event_log_storage.set_concurrency_slots(POOL, 1)
    return on_disk


@pytest.fixture
def killed(home: dg.DagsterInstance) -> Callable[..., dg.DagsterRun]:
    """A run whose worker was killed while its step had a slot."""

    def create(status: dg.DagsterRunStatus, **tags: str) -> dg.DagsterRun:
        run = home.create_run_for_job(printing, status=status, tags=tags)
        claim = home.event_log_storage.claim_concurrency_slot(POOL, run.run_id, "wrapped.printed")
        assert claim.is_claimed
        return run

    return create


def slots(instance: dg.DagsterInstance) -> int:
    return len(instance.event_log_storage.get_concurrency_info(POOL).claimed_slots)


@pytest.mark.parametrize(
    ("status", "freed"),
    [(dg.DagsterRunStatus.FAILURE, True), (dg.DagsterRunStatus.CANCELED, True), (dg.DagsterRunStatus.CANCELING, False)],
)
@pytest.mark.parametrize("will_retry", ["true", "false"])
def test_the_status_sensors_free_the_slots_of_a_run_that_has_ended(
    home: dg.DagsterInstance,
    killed: Callable[..., dg.DagsterRun],
    queue: LeasedQueue,
    redis_queue: RedisQueueResource,
    status: dg.DagsterRunStatus,
    will_retry: str,
    *,
    freed: bool,
) -> None:
    run = killed(status, **{"dagster/will_retry": will_retry})
    sensors = dict(zip(("FAILURE", "CANCELED", "CANCELING"), redis_queue_status_sensors(queue.name), strict=True))
    with dg.build_run_status_sensor_context(
        sensor_name="ended",
        dagster_event=dg.DagsterEvent("PIPELINE_FAILURE", run.job_name),
        dagster_instance=home,
        dagster_run=run,
        resources={"redis_queue": redis_queue},
    ) as context:
        sensors[status.value](context)
    assert slots(home) == (0 if freed else 1)


@pytest.mark.parametrize("target", [printing, wrapped, pages, both, leaflet, [pages, printing]])
def test_the_pools_of_a_target_are_known_at_its_definition(target: Any) -> None:
    assert pools_of(target) == {POOL}


@pytest.mark.parametrize(("on_disk", "warned"), [({}, True), (SET, False)], indirect=["on_disk"])
def test_a_tick_for_steps_in_a_pool_warns_when_dagster_does_not_free_slots(
    home: dg.DagsterInstance,
    queue: LeasedQueue,
    redis_queue: RedisQueueResource,
    capfd: pytest.CaptureFixture[str],
    *,
    warned: bool,
) -> None:
    sensor = build_redis_queue_sensor(queue.name, target=printing, config=CONFIG)
    with dg.build_sensor_context(home, resources={"redis_queue": redis_queue}) as context:
        sensor(context)
    assert ("keeps its slot of pool printers" in capfd.readouterr().err) is warned


def found() -> list[tuple[str, str]]:
    (point,) = entry_points(group="rmq.findings", name="dagster")
    return list(point.load()())


def test_the_doctor_names_the_slot_of_an_ended_run_and_the_missing_settings(
    home: dg.DagsterInstance, killed: Callable[..., dg.DagsterRun]
) -> None:
    run = killed(dg.DagsterRunStatus.FAILURE)
    told = [text for text, _ in found()]
    assert any("run monitoring is off" in text for text in told)
    assert any("free_slots_after_run_end_seconds is not set" in text for text in told)
    assert any(run.run_id in text and "which has ended, holds a slot" in text for text in told)


@pytest.mark.parametrize("on_disk", [SET], indirect=True)
def test_the_doctor_finds_nothing_wrong_with_a_run_at_work(
    home: dg.DagsterInstance, killed: Callable[..., dg.DagsterRun]
) -> None:
    killed(dg.DagsterRunStatus.STARTED)
    assert found() == []
