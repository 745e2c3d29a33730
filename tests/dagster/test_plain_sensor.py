"""The sensor of the guide, unchanged, on its own queue: `redis_queue.run_requests`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from rmq_core import ConfigurationError, LeasedQueue
from rmq_dagster import QueuePartitions, RedisQueueResource
from rmq_dagster.runs.identity import CLAIMED, FENCE, QUEUE, SENSOR
from tests.dagster.pipeline import ROOT

GUIDE = ROOT / "docs" / "how-to" / "dagster-queues.md"
Tick = Callable[..., dg.SensorResult]
Made = dict[str, Any]


@pytest.fixture
def shown(queue: LeasedQueue, redis_url: str) -> Made:
    """Return what the first block of the guide's section defines."""
    (code,) = re.findall(
        r"^## A plain sensor\n.*?^```python\n(.*?)^```$.*?^### ", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    defined: Made = {}
    code = code.replace("redis://localhost:6379/0", redis_url).replace("arrivals", queue.name)
    exec(compile(code, "dagster-queues.md", "exec", dont_inherit=True), defined)
    return defined


@pytest.fixture
def tick(shown: Made, instance: dg.DagsterInstance, redis_queue: RedisQueueResource) -> Tick:
    def evaluate(sensor: Any = None, **about: Any) -> dg.SensorResult:
        about = {"sensor_name": "work_is_there", **about}
        with dg.build_sensor_context(instance, resources={"redis_queue": redis_queue}, **about) as context:
            result = (sensor or shown["work_is_there"])(context)
        assert isinstance(result, dg.SensorResult)
        return result

    return evaluate


def calling(*args: Any, **options: Any) -> dg.SensorDefinition:
    """A custom sensor."""

    @dg.sensor(name="work_is_there", required_resource_keys={"redis_queue"})
    def sensor(context: Any, **_: object) -> dg.SensorResult:
        result: dg.SensorResult = context.resources.redis_queue.run_requests(context, *args, **options)
        return result

    return sensor


@pytest.fixture
def requested(shown: Made, queue: LeasedQueue, instance: dg.DagsterInstance) -> Callable[..., dg.DagsterRun]:
    """A run that an earlier tick requested."""
    job = shown["defs"].resolve_implicit_global_asset_job_def()

    def create(status: dg.DagsterRunStatus = dg.DagsterRunStatus.STARTING, **tags: str) -> dg.DagsterRun:
        return instance.create_run_for_job(
            job, status=status, tags={SENSOR: "work_is_there", QUEUE: queue.name, **tags}
        )

    return create


def asked(result: dg.SensorResult) -> int:
    return len(result.run_requests or ())


def said(result: dg.SensorResult) -> str:
    return str(result.skip_reason and result.skip_reason.skip_message)


def test_one_run_per_batch_is_requested_without_key_or_cursor_and_without_message_ids(
    tick: Tick, queue: LeasedQueue
) -> None:
    queue.publish_many([f"m{number}" for number in range(250)])
    result = tick()
    assert [(request.run_key, request.tags) for request in result.run_requests or ()] == [
        (None, {QUEUE: queue.name, FENCE: f"{queue.name}@0"})
    ] * 3
    assert result.cursor is None
    assert queue.stats().leases == 0


@pytest.mark.parametrize("status", ["NOT_STARTED", "STARTING", "STARTED"])
def test_runs_that_have_yet_to_claim_are_not_requested_again_by_further_ticks(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun], status: str
) -> None:
    queue.publish_many([f"m{number}" for number in range(250)])
    for _ in range(3):
        requested(dg.DagsterRunStatus(status))
    for _ in range(3):
        assert "3 run(s) of this sensor have yet to claim" in said(tick())
    queue.publish_many([f"more{number}" for number in range(100)])
    assert asked(tick()) == 1


@pytest.mark.parametrize("status", ["FAILURE", "CANCELED", "SUCCESS"])
def test_runs_that_ended_or_have_claimed_do_not_count(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun], status: str
) -> None:
    queue.publish("m")
    requested(dg.DagsterRunStatus(status))
    requested(dg.DagsterRunStatus.STARTED, **{CLAIMED: "7"})
    holder = requested(dg.DagsterRunStatus.STARTED)
    queue.claim(lease_id="work", owner=holder.run_id)
    queue.publish("n")
    assert asked(tick()) == 1


def test_a_manual_tick_needs_no_name_and_counts_all_runs_for_the_queue(
    tick: Tick, queue: LeasedQueue, requested: Callable[..., dg.DagsterRun]
) -> None:
    queue.publish("m")
    assert asked(tick(sensor_name=None)) == 1
    requested()
    assert asked(tick(sensor_name=None)) == 0


def test_queues_of_partitions_are_requested_with_their_partition_keys(
    tick: Tick, queue: LeasedQueue, redis_queue: RedisQueueResource
) -> None:
    tenants = QueuePartitions(f"orders of {queue.name}", dg.DynamicPartitionsDefinition(name="tenants"))
    redis_queue.publish(tenants.queue("north"), ["a"])
    result = tick(calling(tenants))
    assert [request.partition_key for request in result.run_requests or ()] == ["north"]
    assert len(result.dynamic_partitions_requests or ()) == 1


@pytest.mark.parametrize("parameter", ["batch", "max_in_flight_runs", "min_messages"])
def test_invalid_arguments_raise_an_error_that_names_them(tick: Tick, queue: LeasedQueue, parameter: str) -> None:
    with pytest.raises(ConfigurationError, match=parameter):
        tick(calling(queue.name, **{parameter: 0}))
