"""Queues of partitions, and groups of a queue, as an asset with checks: dynamic, static and of days."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from rmq_core import ConfigurationError, LeasedQueue
from rmq_dagster import Limit, QueueLimits, QueuePartitions, RedisQueueResource, redis_queue_definitions
from rmq_dagster.components import RedisQueueConsumeComponent, RedisQueuePublishComponent
from rmq_dagster.runs.identity import QUEUE, SENSOR
from tests.dagster import callables

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


@pytest.fixture
def grouped(
    queue: LeasedQueue, redis_queue: RedisQueueResource
) -> Callable[..., tuple[QueuePartitions, dg.Definitions]]:
    """The definitions around one queue whose groups are partitions, and a consumer of them."""

    def define(policy: str = "fair", **options: Any) -> tuple[QueuePartitions, dg.Definitions]:
        queue.admin.configure(groups=policy)
        definition = options.pop("definition", dg.DynamicPartitionsDefinition(name="tenants"))
        tenants = QueuePartitions(queue.name, definition, each_group=True)
        consume = RedisQueueConsumeComponent(
            queue=queue.name, partitions="tenants", each_group=True, asset=dg.AssetSpec("consumer"), max_messages=2,
            function="tests.dagster.callables.work",
        )  # fmt: skip
        around = redis_queue_definitions(tenants, target="consumer", resource=redis_queue, batch=2, **options)
        defs = dg.Definitions.merge(around, consume.build_defs(dg.ComponentTree.for_test().load_context))
        dg.Definitions.validate_loadable(defs)
        return tenants, defs

    return define


def asked(result: dg.SensorResult) -> list[str | None]:
    return sorted(str(request.partition_key) for request in result.run_requests or ())


def test_each_group_is_a_partition_whose_run_claims_this_group_alone(
    grouped: Any, queue: LeasedQueue, instance: dg.DagsterInstance
) -> None:
    tenants, defs = grouped()
    bell = f"{queue.name}_doorbell"
    queue.publish_many(["a", "b", "c"], group="gold")
    queue.publish("d", group="{small} & co...")
    queue.publish("of nobody")
    first = tick(defs, bell, instance)
    small = tenants.key("{small} & co...")
    assert asked(first) == sorted(["gold", "gold", small])
    assert {request.tags[QUEUE] for request in first.run_requests or ()} == {queue.name}
    (added,) = first.dynamic_partitions_requests or ()
    instance.add_dynamic_partitions("tenants", added.partition_keys)  # Dagster checks them
    for key in ("gold", small):
        callables.worked.clear()
        job = defs.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=instance, partition_key=key, tags={QUEUE: queue.name}, asset_selection=[dg.AssetKey("consumer")]
        )
        assert result.success
        assert callables.worked == (["a", "b"] if key == "gold" else ["d"])
    second = tick(defs, bell, instance, first.cursor)
    assert asked(second) == ["gold"]
    assert not second.dynamic_partitions_requests
    waits = {SENSOR: bell, QUEUE: queue.name}
    instance.create_run_for_job(
        defs.resolve_job_def(f"{queue.name}_redrive"), tags={**waits, "dagster/partition": "gold"}
    )
    third = tick(defs, bell, instance, second.cursor)
    assert asked(third) == [], "a run of this group is on its way"
    assert f"'{queue.name}/' left out, all others served" in str(third.skip_reason), "its messages have no group"
    queue.publish("e", group="new")
    assert asked(tick(defs, bell, instance, second.cursor)) == ["new"], "it is none of that group"


def test_one_run_at_a_time_is_requested_for_a_group_that_few_may_hold(
    grouped: Any, queue: LeasedQueue, instance: dg.DagsterInstance
) -> None:
    _, defs = grouped("exclusive")
    for group in ("gold", "small"):
        queue.publish_many(range(6), group=group)
    bell = f"{queue.name}_doorbell"
    assert asked(tick(defs, bell, instance)) == ["gold", "small"]
    failed = instance.create_run_for_job(
        defs.resolve_job_def(f"{queue.name}_redrive"), status=dg.DagsterRunStatus.FAILURE
    )
    assert queue.claim(groups=["gold"], owner=failed.run_id)
    assert asked(tick(defs, bell, instance)) == ["gold", "small"], "its run has ended"
    assert queue.claim(groups=["gold"], lease=1)
    assert asked(tick(defs, bell, instance)) == ["small"]
    time.sleep(1.1)
    assert asked(tick(defs, bell, instance)) == ["gold", "small"], "the lease has expired"


def test_a_tick_that_claims_takes_messages_of_the_group_of_each_run(
    grouped: Any, queue: LeasedQueue, instance: dg.DagsterInstance
) -> None:
    _, defs = grouped(claim_for=600)
    for group in ("gold", "small"):
        queue.publish_many(["a", "b"], group=group)
    result = tick(defs, f"{queue.name}_doorbell", instance)
    assert asked(result) == ["gold", "small"]
    for request in result.run_requests or ():
        lease = queue.adopt(request.tags["rmq/lease_id"])
        assert [message.group for message in queue.messages(lease)] == [request.partition_key] * 2


def test_each_group_has_a_plot_and_checks_and_the_queue_has_those_that_no_group_has(
    grouped: Any, queue: LeasedQueue, instance: dg.DagsterInstance
) -> None:
    limits = QueueLimits(depth=Limit(warn=2))
    _, defs = grouped(limits=limits)
    queue.publish_many(["a", "b", "c"], group="gold")
    queue.publish("d", group="small")
    observer = f"{queue.name}_observer"

    def judged(result: dg.SensorResult) -> dict[str, Any]:
        """The partitions for which a check fails; of a check of the queue, whether it passed."""
        found: dict[str, Any] = {}
        for each in result.asset_events or ():
            if isinstance(each, dg.AssetCheckEvaluation):
                names = each.metadata.get("rmq/failed_partitions")
                found[each.check_name.removeprefix(f"{queue.name}_")] = each.passed if names is None else names.value
        return found

    def plotted(result: dg.SensorResult) -> dict[str | None, dg.AssetObservation]:
        events = result.asset_events or ()
        return {each.partition: each for each in events if isinstance(each, dg.AssetObservation) and each.partition}

    first = tick(defs, observer, instance)
    seen = plotted(first)
    assert {key: each.metadata["rmq/ready"].value for key, each in seen.items()} == {"gold": 3, "small": 1}
    assert seen["gold"].metadata["rmq/group"].value == "gold"
    assert "rmq/dead_letters" not in seen["gold"].metadata
    assert seen["gold"].metadata["rmq/oldest_age_seconds"].value > 0
    assert judged(first) == {"dead_letters": True, "depth": ["gold"]}

    for each in seen.values():
        instance.report_runless_asset_event(each)
    assert plotted(tick(defs, observer, instance))["gold"].tags == seen["gold"].tags, "nothing has happened since"
    queue.publish("e", group="gold")
    assert plotted(tick(defs, observer, instance))["gold"].tags != seen["gold"].tags
    queue.admin.purge("ready")
    second = tick(defs, observer, instance, first.cursor)
    assert judged(second) == {"dead_letters": True, "depth": []}, "the plots come down"
    queue.publish("bad", group="gold")
    while lease := queue.claim():
        queue.nack(lease)
    third = tick(defs, observer, instance, second.cursor)
    assert judged(third)["dead_letters"] is False, "although no group has messages"
    fourth = tick(defs, observer, instance, '["gold"]')
    assert (list(plotted(fourth)), fourth.cursor) == (["gold"], "[]"), "dead letters keep no group in the plots"


def test_a_run_observes_and_checks_the_group_of_its_partition(
    grouped: Any, queue: LeasedQueue, instance: dg.DagsterInstance
) -> None:
    _, defs = grouped(limits=QueueLimits(depth=Limit(error=1)))
    queue.publish_many(["a", "b"], group="gold")
    queue.publish("c", group="small")
    instance.add_dynamic_partitions("tenants", ["gold", "small"])
    job = dg.define_asset_job("look", [f"{queue.name}_queue"])
    defs = dg.Definitions.merge(defs, dg.Definitions(jobs=[job]))
    for key, passes in (("gold", False), ("small", True)):
        result = defs.resolve_job_def("look").execute_in_process(instance=instance, partition_key=key)
        checks = {each.check_name: each.passed for each in result.get_asset_check_evaluations()}
        assert checks == {f"{queue.name}_depth": passes, f"{queue.name}_dead_letters": True}


def test_a_component_publishes_each_message_to_the_group_of_its_partition(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    queue.admin.configure(groups="fair")
    publish = RedisQueuePublishComponent(
        queue=queue.name, asset=dg.AssetSpec("orders"), partitions="countries", partition_by="country", each_group=True,
        messages=[{"country": "de", "n": 1}, {"country": "fr"}, {"country": "de", "n": 2}],
    )  # fmt: skip
    assets: Any = publish.build_defs(dg.ComponentTree.for_test().load_context).assets
    assert dg.materialize(list(assets), instance=instance, resources={"redis_queue": redis_queue}).success
    assert {group.name: group.waiting for group in queue.admin.groups()} == {"de": 2, "fr": 1}


def test_groups_as_partitions_need_a_queue_with_groups_and_name_them_once(
    queue: LeasedQueue, instance: dg.DagsterInstance, redis_queue: RedisQueueResource
) -> None:
    tenants = QueuePartitions(queue.name, TENANTS, each_group=True)
    around = redis_queue_definitions(tenants, target="consumer", resource=redis_queue)
    with pytest.raises(ConfigurationError, match="has no groups"):
        tick(around, f"{queue.name}_doorbell", instance)
    queue.admin.configure(groups="fair")
    queue.publish_many(["a"], group="glod")
    refused = tick(around, f"{queue.name}_doorbell", instance)
    assert f"'{queue.name}/glod' left out" in str(refused.skip_reason)
    assert "the group that follows" in str(refused.skip_reason)
    with pytest.raises(ConfigurationError, match="each partition is a group"):
        redis_queue_definitions(tenants, target="consumer", groups=["gold"])
    with pytest.raises(ConfigurationError, match="each_group needs `partitions`"):
        _ = RedisQueuePublishComponent(queue="orders", asset=dg.AssetSpec("orders"), each_group=True).queues
