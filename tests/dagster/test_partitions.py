"""Queues of partitions as an asset with checks: dynamic, static and of days."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from rmq_core import ConfigurationError, LeasedQueue
from rmq_dagster import QueuePartitions, RedisQueueResource, redis_queue_definitions

# Dagster deprecates a function that it uses itself to make observable assets external ones.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
]

DAYS = dg.DailyPartitionsDefinition("2026-01-01")
TENANTS = dg.StaticPartitionsDefinition(["gold", "small"])
TENANT_DAYS = dg.MultiPartitionsDefinition({"day": DAYS, "tenant": TENANTS})
Made = Callable[[dg.PartitionsDefinition], tuple[QueuePartitions, dg.Definitions]]


@pytest.fixture
def made(queue: LeasedQueue, redis_queue: RedisQueueResource) -> Made:
    """The definitions around the queues of partitions, and a consumer of them."""

    def define(definition: dg.PartitionsDefinition) -> tuple[QueuePartitions, dg.Definitions]:
        queues = QueuePartitions(queue.name, definition)

        @dg.asset(partitions_def=definition, deps=[f"{queue.name}_queue"])
        def consumer() -> None: ...

        around = redis_queue_definitions(queues, target=consumer, resource=redis_queue)
        defs = dg.Definitions.merge(around, dg.Definitions(assets=[consumer]))
        dg.Definitions.validate_loadable(defs)
        return queues, defs

    return define


def tick(defs: dg.Definitions, name: str, instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult:
    sensor = defs.resolve_sensor_def(name)
    resources = dict(defs.resources or {})
    with dg.build_sensor_context(instance, cursor=cursor, resources=resources, sensor_name=name) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return result


def depths(result: dg.SensorResult) -> dict[str | None, Any]:
    seen = [each for each in result.asset_events or () if isinstance(each, dg.AssetObservation)]
    return {each.partition: each.metadata["rmq/depth"].value for each in seen}


def failed(result: dg.SensorResult) -> Any:
    """The partitions for which the one check fails."""
    (judged,) = [each for each in result.asset_events or () if isinstance(each, dg.AssetCheckEvaluation)]
    names = judged.metadata["rmq/failed_partitions"].value
    assert (judged.passed, judged.partition) == (not names, None)
    return names


def test_each_tenant_has_a_plot_and_a_check_until_its_queue_is_empty(
    made: Made, queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    tenants, defs = made(dg.DynamicPartitionsDefinition(name="tenants"))
    redis_queue.publish(tenants.queue("gold"), ["a", "b"])
    redis_queue.publish(tenants.queue("small"), ["bad"])
    small = redis_queue.queue(tenants.queue("small"))
    for _ in range(10):
        if lease := small.claim():
            small.nack(lease)
    redis_queue.publish(tenants.queue("small"), ["c"])
    observer = f"{queue.name}_observer"
    first = tick(defs, observer, instance)
    assert (depths(first), failed(first)) == ({"gold": 2, "small": 1}, ["small"])
    (added,) = first.dynamic_partitions_requests or ()
    assert sorted(added.partition_keys) == ["gold", "small"]

    redis_queue.queue(tenants.queue("gold")).admin.purge("ready")
    small.admin.purge("ready")
    second = tick(defs, observer, instance, first.cursor)
    assert depths(second) == {"gold": 0, "small": 0}, "the plots come down"
    small.admin.purge("dead")
    third = tick(defs, observer, instance, second.cursor)
    assert failed(third) == [], "its dead letters are gone, and the check knows"
    assert depths(tick(defs, observer, instance, third.cursor)) == {}


def test_observations_of_a_tenant_have_a_data_version_of_their_own(
    made: Made, queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    tenants, defs = made(dg.DynamicPartitionsDefinition(name="tenants"))
    for tenant in ("gold", "small"):
        redis_queue.publish(tenants.queue(tenant), [tenant])
    versions = []
    for _ in range(2):
        seen = tick(defs, f"{queue.name}_observer", instance).asset_events or ()
        observed = [each for each in seen if isinstance(each, dg.AssetObservation)]
        for each in observed:
            instance.report_runless_asset_event(each)
        for each in seen:
            if isinstance(each, dg.AssetCheckEvaluation):
                instance.report_runless_asset_event(each)  # Dagster refuses a second one that has a partition
        versions.append({each.partition: each.tags["dagster/data_version"] for each in observed})
    assert versions[0] == versions[1]
    assert versions[0]["gold"] != versions[0]["small"]


def test_a_run_observes_and_checks_the_partition_that_it_names(
    made: Made, queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    regions, defs = made(dg.StaticPartitionsDefinition(["north", "south"]))
    redis_queue.publish(regions.queue("south"), ["a"])
    job = dg.define_asset_job("look", [f"{queue.name}_queue"])
    defs = dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
    result = defs.resolve_job_def("look").execute_in_process(instance=instance, partition_key="south")
    assert result.success
    (seen,) = result.get_asset_observation_events()
    observed = seen.asset_observation_data.asset_observation
    assert (observed.partition, observed.metadata["rmq/depth"].value) == ("south", 1)
    (judged,) = result.get_asset_check_evaluations()
    assert judged.passed


@pytest.mark.parametrize(
    ("definition", "key", "other"),
    [
        (TENANTS, "gold", "glod"),
        (DAYS, "2026-01-02", "2036-01-02"),
        (TENANT_DAYS, "2026-01-02|gold", "2026-01-02|glod"),
    ],
    ids=["static", "days", "tenants and days"],
)
def test_queues_of_no_partition_are_left_out_and_named(
    definition: dg.PartitionsDefinition,
    key: str,
    other: str,
    made: Made,
    queue: LeasedQueue,
    redis_queue: RedisQueueResource,
    instance: dg.DagsterInstance,
) -> None:
    queues, defs = made(definition)
    redis_queue.publish(queues.queue(other), ["stays"])
    refused = tick(defs, f"{queue.name}_doorbell", instance)
    assert not refused.run_requests
    assert repr(queues.queue(other)) in str(refused.skip_reason)
    assert "one of the partitions that exist" in str(refused.skip_reason)
    redis_queue.publish(queues.queue(key), ["a"])
    asked = tick(defs, f"{queue.name}_doorbell", instance)
    assert [request.partition_key for request in asked.run_requests or ()] == [key]
    assert not asked.dynamic_partitions_requests
    assert depths(tick(defs, f"{queue.name}_observer", instance)) == {key: 1}


@pytest.mark.parametrize(
    ("queues", "report", "mapping"),
    [
        (DAYS, dg.WeeklyPartitionsDefinition("2026-01-04"), dg.TimeWindowPartitionMapping),
        (TENANT_DAYS, DAYS, dg.MultiToSingleDimensionPartitionMapping),
    ],
    ids=["days to weeks", "tenants and days to days"],
)
def test_dagster_maps_the_partitions_of_the_queues_to_those_of_a_report(
    queues: dg.PartitionsDefinition, report: dg.PartitionsDefinition, mapping: type, made: Made
) -> None:
    _, defs = made(queues)

    @dg.asset(partitions_def=report, deps=["consumer"])
    def reported() -> None: ...

    graph = dg.Definitions.merge(defs, dg.Definitions(assets=[reported])).resolve_asset_graph()
    assert isinstance(graph.get_partition_mapping(dg.AssetKey("reported"), dg.AssetKey("consumer")), mapping)


def test_a_static_key_that_no_queue_name_can_have_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'a\{b\}'"):
        QueuePartitions("orders", dg.StaticPartitionsDefinition(["a{b}"]))
