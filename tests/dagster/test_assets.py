# No deferred annotations: Dagster compares that of `context` with its own class, so it must not become a string.
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedConfig, LeasedQueue
from rmq_core.messages import NewMessage
from rmq_dagster import (
    Limit,
    QueueLimits,
    RedisQueueResource,
    build_redis_queue_sensor,
    publish_op,
    redis_queue_asset,
    redis_queue_checks,
    redis_queue_definitions,
    redis_queue_observer,
)

WARN, ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR
Check = Callable[..., dict[str, dg.AssetCheckEvaluation]]


def values(metadata: Any) -> dict[str, Any]:
    return {name: value.value for name, value in metadata.items()}


def test_an_op_publishes_its_input_and_reports_the_count(
    queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    @dg.op
    def orders() -> list[Any]:
        return [{"n": 1}, {"n": 2}, {"n": 1}]

    @dg.job(resource_defs={"redis_queue": redis_queue})
    def publish_orders() -> None:
        publish_op(queue.name, name="publish", config=LeasedConfig(dedup=True))(orders())

    result = publish_orders.execute_in_process(instance=instance)
    assert result.output_for_node("publish") == 2
    (output,) = [event for event in result.events_for_node("publish") if event.is_successful_output]
    told = values(output.step_output_data.metadata)
    assert told == {"rmq/queue": queue.name, "rmq/published": 2, "rmq/duplicates": 1, "rmq/dropped": 0}
    assert [message.payload for message in queue.admin.peek(9)] == [{"n": 1}, {"n": 2}]


def test_a_resource_publishes_messages_that_expire(queue: LeasedQueue, redis_queue: RedisQueueResource) -> None:
    queue.admin.configure(groups="fair")
    redis_queue.publish(queue.name, ["a"], expires=datetime.now(UTC) - timedelta(seconds=1))
    redis_queue.publish(queue.name, [NewMessage("b", expires=60)])
    assert [message.payload for message in queue.claim(max_messages=2).messages] == ["b"]
    assert queue.stats().dead == 1


# Dagster deprecates a function that it uses itself to make observable assets external ones.
@pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning")
def test_observing_a_queue_records_its_counts_and_claims_nothing(
    queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    asset = redis_queue_asset(queue.name, config=LeasedConfig(max_deliveries=1), group_name="queues")
    queue.publish_many(["a", "b", "c"])
    queue.publish("d", delay=60)
    queue.claim()
    defs = dg.Definitions(
        assets=[asset],
        resources={"redis_queue": redis_queue},
        jobs=[dg.define_asset_job("observe", [dg.AssetKey(queue.name)], executor_def=dg.in_process_executor)],
    )
    assert defs.resolve_job_def("observe").execute_in_process(instance=instance).success
    (record,) = instance.fetch_observations(dg.AssetKey(queue.name), limit=5).records
    told = values(record.asset_observation.metadata)  # type: ignore[union-attr]
    assert told.pop("rmq/oldest_age_seconds") > 0
    assert told == {
        "rmq/queue": queue.name,
        "rmq/depth": 4,
        "rmq/ready": 2,
        "rmq/delayed": 1,
        "rmq/leased": 1,
        "rmq/isolated": 0,
        "rmq/dead_letters": 0,
    }
    assert queue.stats()[:2] == (2, 1)


def test_the_asset_of_a_queue_and_its_observations_link_to_the_console(
    queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQ_CONSOLE", "https://rmq.test")
    page = dg.MetadataValue.url(f"https://rmq.test/#/redis/{queue.name}")
    asset = redis_queue_asset(queue.name)
    assert asset.specs_by_key[asset.key].metadata["rmq/console"] == page
    observer = redis_queue_observer(queue.name, asset=asset.key)
    with dg.build_sensor_context(instance, resources={"redis_queue": redis_queue}) as context:
        result = observer(context)
    assert result.asset_events[0].metadata["rmq/console"] == page


def test_everything_around_a_queue_has_names_that_dagster_accepts() -> None:
    defs = redis_queue_definitions("bestellungen_für", target="invoices")
    names = {sensor.name for sensor in defs.sensors or ()}
    assert names == {
        f"bestellungen_f_r_{ending}" for ending in ("doorbell", "on_failure", "on_cancel", "on_canceling", "observer")
    }


@pytest.fixture
def check(queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance) -> Check:
    """Materialize an asset together with its checks; return the check results by name."""

    @dg.asset
    def publisher() -> None: ...

    def run(limits: QueueLimits | None = None, *, materialize: bool = True) -> dict[str, dg.AssetCheckEvaluation]:
        checks = redis_queue_checks(queue.name, asset=publisher, limits=limits)
        selection = None if materialize else dg.AssetSelection.checks(checks)
        result = dg.materialize(
            [publisher, checks], instance=instance, resources={"redis_queue": redis_queue}, selection=selection
        )
        found = result.get_asset_check_evaluations()
        return {evaluation.check_name.removeprefix(f"{queue.name}_"): evaluation for evaluation in found}

    return run


def test_without_limits_a_dead_letter_is_an_error_and_nothing_else_is_checked(
    check: Check, queue: LeasedQueue, redis_url: str
) -> None:
    assert {name: found.passed for name, found in check().items()} == {"dead_letters": True}
    with LeasedQueue(redis_url, queue.name, LeasedConfig(max_deliveries=1)) as strict:
        strict.publish("bad")
        lease = strict.claim()
        assert lease is not None
        strict.nack(lease)
    dead = check()["dead_letters"]
    assert (dead.passed, dead.severity) == (False, ERROR)
    assert values(dead.metadata) == {"rmq/value": 1.0, "rmq/error_above": 0}


@pytest.mark.parametrize(("messages", "severity"), [(1, None), (2, WARN), (4, ERROR)])
def test_depth_warns_first_and_is_an_error_further_on(
    check: Check, queue: LeasedQueue, messages: int, severity: dg.AssetCheckSeverity | None
) -> None:
    queue.publish_many([f"m{number}" for number in range(messages)])
    found = check(QueueLimits(depth=Limit(warn=1, error=3)))["depth"]
    assert found.passed is (severity is None)
    assert severity is None or found.severity is severity


def test_every_limit_becomes_a_check(check: Check, queue: LeasedQueue) -> None:
    queue.publish("a")
    limits = QueueLimits(
        depth=Limit(warn=5), oldest_age=Limit(error=0), dead_letters=Limit(error=0), freshness=Limit(error=60)
    )
    found = check(limits)
    verdicts = {name: evaluation.passed for name, evaluation in found.items()}
    assert verdicts == {"depth": True, "oldest_age": False, "dead_letters": True, "freshness": True}


def test_an_asset_that_was_never_materialized_is_not_fresh_and_only_warns(check: Check) -> None:
    limits = QueueLimits(dead_letters=None, freshness=Limit(error=60))
    never = check(limits, materialize=False)["freshness"]
    assert (never.passed, never.severity) == (False, WARN)
    assert check(limits)["freshness"].passed
    assert not check(QueueLimits(dead_letters=None, freshness=Limit(error=0)), materialize=False)["freshness"].passed


def test_a_tick_of_the_observer_reports_the_counts_of_the_queue_and_its_check_results(
    queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    queue.publish_many(["a", "b"])
    limits = QueueLimits(depth=Limit(warn=1), oldest_age=Limit(error=3600), dead_letters=None)
    observer = redis_queue_observer(queue.name, asset="looked_at", limits=limits, every=60)
    assert observer.minimum_interval_seconds == 60
    with dg.build_sensor_context(instance, resources={"redis_queue": redis_queue}) as context:
        result: Any = observer(context)
    seen, depth, age = result.asset_events
    assert (seen.asset_key, seen.metadata["rmq/depth"].value) == (dg.AssetKey("looked_at"), 2)
    assert (depth.check_name, depth.passed, depth.severity) == (f"{queue.name}_depth", False, WARN)
    assert (age.check_name, age.passed, age.asset_key) == (f"{queue.name}_oldest_age", True, dg.AssetKey("looked_at"))
    assert not result.run_requests


def test_one_asset_publishes_and_another_consumes_on_a_request_of_the_sensor(
    queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    """The lineage connects the two assets; their messages go through Redis, and no IO manager sees them."""

    @dg.asset
    def arrivals(redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
        report = redis_queue.publish(queue.name, ["a", "b", "c"])
        return dg.MaterializeResult(metadata={"published": report.accepted})

    @dg.asset(deps=[arrivals])
    def loaded(context: dg.AssetExecutionContext, redis_queue: RedisQueueResource) -> dg.MaterializeResult[Any]:
        with redis_queue.claimed(context, queue.name, max_messages=2) as batch:
            return dg.MaterializeResult(metadata=batch.metadata)

    resources = {"redis_queue": redis_queue}
    assert dg.materialize([arrivals], instance=instance, resources=resources).success
    sensor = build_redis_queue_sensor(queue.name, target=loaded, batch=2, name="bell")
    with dg.build_sensor_context(instance=instance, resources=resources, sensor_name="bell") as context:
        result: Any = sensor(context)
    assert len(result.run_requests) == 2
    claimed = []
    for request in result.run_requests:
        run = dg.materialize([loaded], instance=instance, resources=resources, tags=request.tags)
        (event,) = run.get_asset_materialization_events()
        claimed.append(event.materialization.metadata["rmq/claimed"].value)
    assert claimed == [2, 1]
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
