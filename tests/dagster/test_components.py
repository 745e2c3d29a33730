from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rmq_core import ConfigurationError, LeasedQueue
from rmq_dagster import RedisQueueResource
from rmq_dagster.components import RedisQueuePublishComponent, RedisQueueSensorComponent, RedisQueueSparkComponent
from rmq_dagster.components.base import QueueComponent
from rmq_dagster.runs.identity import QUEUE
from tests.dagster.pipeline import DRIVER, ROOT, notes

# Dagster's Pipes session and its definitions of assets use what Dagster itself deprecates or marks as a preview.
pytestmark = [
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
    pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning"),
]

Materialize = Callable[..., dg.ExecuteInProcessResult]


def defined(*components: QueueComponent) -> dg.Definitions:
    context = dg.ComponentTree.for_test().load_context
    return dg.Definitions.merge(*(component.build_defs(context) for component in components))


@pytest.fixture
def materialize(instance: dg.DagsterInstance, redis_queue: RedisQueueResource) -> Materialize:
    """Materialize the asset of a component."""

    def run(component: QueueComponent, **options: Any) -> dg.ExecuteInProcessResult:
        assets: Any = defined(component).assets
        return dg.materialize(
            list(assets), instance=instance, resources={"redis_queue": redis_queue}, raise_on_error=False, **options
        )

    return run


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def publisher(queue: str, **more: Any) -> RedisQueuePublishComponent:
    return RedisQueuePublishComponent(queue=queue, asset=dg.AssetSpec("orders"), **more)


def job(queue: str, seen: Path, behaviour: str = "adopt", **more: Any) -> RedisQueueSparkComponent:
    """A job in plain Python instead of Spark."""
    return RedisQueueSparkComponent(
        queue=queue,
        asset=more.pop("asset", dg.AssetSpec("invoices")),
        submit=[sys.executable],
        application=str(DRIVER),
        arguments=[behaviour, str(seen)],
        env={"PYTHONPATH": str(ROOT)},
        **more,
    )


def test_messages_of_the_yaml_are_published_and_counted(materialize: Materialize, queue: LeasedQueue) -> None:
    settings = {"dedup": True}
    component = publisher(queue.name, messages=[{"n": 1}, "two", {"n": 1}], settings=settings)
    assert metadata(materialize(component)) == {
        "rmq/queue": queue.name,
        "rmq/queues": 1,
        "rmq/published": 2,
        "rmq/duplicates": 1,
    }
    assert [message.payload for message in queue.admin.peek(9)] == [{"n": 1}, "two"]


def test_a_function_computes_what_is_published_when_the_run_executes(
    materialize: Materialize, queue: LeasedQueue
) -> None:
    assert materialize(publisher(queue.name, function="tests.dagster.pipeline.todays")).success
    assert [message.payload for message in queue.admin.peek(9)] == ["today's first", "today's second"]


def test_each_message_goes_to_the_queue_of_its_partition(
    materialize: Materialize, queue: LeasedQueue, redis_queue: RedisQueueResource
) -> None:
    messages = [{"country": "de", "n": 1}, {"country": "fr"}, {"country": "de", "n": 2}]
    component = publisher(queue.name, messages=messages, partitions="countries", partition_by="country")
    assert metadata(materialize(component))["rmq/queues"] == 2
    assert [redis_queue.stats(f"{queue.name}/{country}").ready for country in ("de", "fr")] == [2, 1]


def test_a_message_of_no_partition_fails_the_run_before_anything_is_published(
    materialize: Materialize, queue: LeasedQueue, redis_queue: RedisQueueResource
) -> None:
    messages = [{"country": "de"}, {"land": "fr"}]
    result = materialize(publisher(queue.name, messages=messages, partitions="countries", partition_by="country"))
    assert not result.success
    assert ConfigurationError.__name__ in str(result.failure_data_for_node("orders"))
    assert redis_queue.stats(f"{queue.name}/de").ready == 0


def test_a_spark_job_processes_the_messages_and_reports_their_outcome(
    materialize: Materialize, queue: LeasedQueue, seen: Path
) -> None:
    queue.publish_many(["a", "b", "c"])
    told = metadata(materialize(job(queue.name, seen, max_messages=2)))
    assert (told["rmq/claimed"], told["rmq/acked"]) == (2, 2)
    assert told["rmq/processed_per_minute"] > 0
    assert notes(seen)[0]["payloads"] == ["a", "b"]
    assert queue.stats()[:5] == (1, 0, 0, 0, 0)


@pytest.mark.parametrize("each_group", [False, True], ids=["queues", "groups"])
def test_a_partition_of_a_spark_job_works_on_its_own_messages(
    each_group: bool,
    materialize: Materialize,
    queue: LeasedQueue,
    redis_queue: RedisQueueResource,
    instance: dg.DagsterInstance,
    seen: Path,
) -> None:
    if each_group:
        queue.admin.configure(groups="fair")
    for country in ("de", "fr"):
        if each_group:
            redis_queue.publish(queue.name, [country], group=country)
        else:
            redis_queue.publish(f"{queue.name}/{country}", [country])
    instance.add_dynamic_partitions("countries", ["de"])
    spark = job(queue.name, seen, partitions="countries", each_group=each_group)
    assert materialize(spark, partition_key="de").success
    assert notes(seen)[0]["payloads"] == ["de"]
    if each_group:
        assert [group.name for group in queue.admin.groups()] == ["fr"]
    else:
        assert [redis_queue.stats(f"{queue.name}/{country}").ready for country in ("de", "fr")] == [0, 1]


def test_the_sensor_requests_runs_of_the_job(
    queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance, seen: Path
) -> None:
    defs = defined(RedisQueueSensorComponent(queue=queue.name, target="invoices", batch=2), job(queue.name, seen))
    resources = {"redis_queue": redis_queue}
    queue.publish_many(["a", "b", "c"])
    sensor = dg.Definitions.merge(defs, dg.Definitions(resources=resources)).resolve_sensor_def(
        f"{queue.name}_doorbell"
    )
    with dg.build_sensor_context(instance=instance, resources=resources, sensor_name=sensor.name) as context:
        result: Any = sensor(context)
    assert [request.tags[QUEUE] for request in result.run_requests] == [queue.name] * 2
