"""Runs of the component that calls a Python function for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest

from rmq_core import LeasedConfig, LeasedQueue, Typed
from rmq_dagster import RedisQueueResource
from rmq_dagster.components import (
    RedisQueueConsumeComponent,
    RedisQueuePublishComponent,
    RedisQueueSensorComponent,
)
from rmq_dagster.components.base import QueueComponent
from tests.dagster import callables

pytestmark = [
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
    # Dagster deprecates a function that it uses itself to make observable assets external ones.
    pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning"),
]
Materialize = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture(autouse=True)
def worked() -> Iterator[list[Any]]:
    """What the functions worked on, in order."""
    callables.worked.clear()
    yield callables.worked
    callables.worked.clear()


@pytest.fixture
def materialize(instance: dg.DagsterInstance, redis_queue: RedisQueueResource) -> Materialize:
    def run(component: QueueComponent, **options: Any) -> dg.ExecuteInProcessResult:
        assets: Any = component.build_defs(dg.ComponentTree.for_test().load_context).assets
        return dg.materialize(
            list(assets), instance=instance, resources={"redis_queue": redis_queue}, raise_on_error=False, **options
        )

    return run


def consumer(queue: str, function: str = "work", **more: Any) -> RedisQueueConsumeComponent:
    asset = more.pop("asset", dg.AssetSpec("invoices"))
    name = f"tests.dagster.callables.{function}"
    return RedisQueueConsumeComponent(queue=queue, asset=asset, function=name, **more)


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def test_a_function_gets_each_message_and_only_the_one_that_fails_is_nacked(
    materialize: Materialize, queue: LeasedQueue, worked: list[Any]
) -> None:
    queue.publish_many(["a", "bad", "c", "next"])
    told = metadata(materialize(consumer(queue.name, max_messages=3)))
    assert worked == ["a", "bad", "c"]
    assert (told["rmq/claimed"], told["rmq/nacked"]) == (3, 1)
    by_payload = {message.payload: message for message in queue.admin.peek(9)}
    assert by_payload.keys() == {"next", "bad"}
    assert by_payload["bad"].history[-1].reason == "ValueError: cannot read 17"


@pytest.mark.parametrize(("per", "blamed"), [("message", ["b"]), ("batch", ["a", "b", "c"])])
def test_a_lease_that_ends_in_work_is_blamed_on_the_message_in_work(
    materialize: Materialize, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch, per: str, blamed: list[str]
) -> None:
    """As if the worker were killed: its lease ends, and whatever it settles later is refused."""

    def killed(given: Any) -> None:
        if per == "batch" or given.payload == "b":
            (lease,) = queue.admin.leases()
            queue.admin.expire_lease(lease.id)

    monkeypatch.setattr(callables, "work", killed)
    queue.publish_many(["a", "b", "c"])
    assert not materialize(consumer(queue.name, per=per, on_error="fail")).success
    assert sorted(str(message.payload) for message in queue.admin.peek(9) if message.history) == blamed


def test_a_run_whose_messages_all_failed_fails_and_is_not_retried(
    materialize: Materialize, queue: LeasedQueue, worked: list[Any]
) -> None:
    queue.publish("bad")
    result = materialize(consumer(queue.name, retries=3))
    assert not result.success
    assert worked == ["bad"]
    assert "All 1 message(s) failed" in str(result.failure_data_for_node("invoices"))


def test_on_error_fail_keeps_what_is_left_for_the_retry(
    materialize: Materialize, queue: LeasedQueue, worked: list[Any]
) -> None:
    queue.publish_many(["a", "once", "c"])
    assert materialize(consumer(queue.name, on_error="fail", retries=1)).success
    assert worked == ["a", "once", "once", "c"]
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_function_of_a_batch_may_settle_messages_and_adds_to_the_metadata(
    materialize: Materialize, queue: LeasedQueue
) -> None:
    queue.publish_many([[1], [20], [300]])
    told = metadata(materialize(consumer(queue.name, "summed", per="batch")))
    assert (told["total"], told["rmq/claimed"], told["rmq/released"]) == (321, 3, 1)
    assert [message.payload for message in queue.admin.peek(9)] == [[1]]


@pytest.mark.parametrize("per", ["message", "batch"])
def test_a_claim_of_which_no_payload_fits_its_type_calls_no_function_and_fails_the_run(
    materialize: Materialize, queue: LeasedQueue, worked: list[Any], monkeypatch: pytest.MonkeyPatch, per: str
) -> None:
    monkeypatch.setattr(RedisQueueConsumeComponent, "config", LeasedConfig(codec=Typed(int)))
    monkeypatch.setattr(callables, "work", worked.append)
    queue.publish_many(["a", "b"])
    result = materialize(consumer(queue.name, per=per, retries=3))
    assert worked == []
    assert "All 2 message(s) failed; 2 of them are dead letters" in str(result.failure_data_for_node("invoices"))
    assert queue.stats()[:5] == (0, 0, 0, 0, 2)


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        ({"function": "awaited"}, "must not be async"),
        ({"function": "not_awaited"}, "returned an awaitable"),
        ({"function": "never_begun"}, "returned a generator"),
        ({"function": "no_such"}, "names 'no_such', which is no function in module 'tests.dagster.callables'"),
        ({"function": "answered", "per": "batch"}, "must return nothing, or a mapping"),
    ],
)
def test_a_function_that_cannot_work_fails_the_run_and_the_messages_stay(
    materialize: Materialize, queue: LeasedQueue, worked: list[Any], attributes: dict[str, Any], complaint: str
) -> None:
    queue.publish("a")
    result = materialize(consumer(queue.name, **attributes))
    assert complaint in str(result.failure_data_for_node("invoices"))
    assert (worked, queue.stats().ready) == ([], 1)


def test_a_partition_works_on_its_own_queue(
    materialize: Materialize,
    queue: LeasedQueue,
    redis_queue: RedisQueueResource,
    instance: dg.DagsterInstance,
    worked: list[Any],
) -> None:
    for country in ("de", "fr"):
        redis_queue.publish(f"{queue.name}/{country}", [country])
    instance.add_dynamic_partitions("countries", ["de"])
    assert materialize(consumer(queue.name, partitions="countries"), partition_key="de").success
    assert worked == ["de"]
    assert redis_queue.stats(f"{queue.name}/fr").ready == 1


def graph(*components: QueueComponent, resource: RedisQueueResource) -> Any:
    context = dg.ComponentTree.for_test().load_context
    defs = [component.build_defs(context) for component in components]
    return dg.Definitions.merge(*defs, dg.Definitions(resources={"redis_queue": resource})).resolve_asset_graph()


def test_the_lineage_leads_from_the_publisher_through_the_queue_to_the_consumer(
    queue: LeasedQueue, redis_queue: RedisQueueResource
) -> None:
    name = queue.name
    spec = dg.AssetSpec("invoices", owners=["team:billing"], kinds={"python", "pdf"}, deps=["rates"])
    publisher = RedisQueuePublishComponent(queue=name, asset=dg.AssetSpec("orders", kinds={"redis"}), messages=[])
    bell = RedisQueueSensorComponent(queue=name, target="invoices", publishers=[dg.AssetKey("orders")])
    made = graph(publisher, bell, consumer(name, asset=spec, pool="printers"), resource=redis_queue)
    queue_key, invoices = dg.AssetKey(f"{name}_queue"), made.get(dg.AssetKey("invoices"))
    assert invoices.parent_keys == {queue_key, dg.AssetKey("rates")}
    assert made.get(queue_key).parent_keys == {dg.AssetKey("orders")}
    assert (invoices.owners, invoices.kinds, invoices.pools) == (["team:billing"], {"python", "pdf"}, {"printers"})
    assert (made.get(queue_key).kinds, made.get(dg.AssetKey("orders")).kinds) == ({"redis"}, {"redis"})


def test_a_consumer_names_its_queue_itself_or_leaves_it_out(queue: LeasedQueue) -> None:
    key = dg.AssetKey(f"{queue.name}_queue")
    named = consumer(queue.name, asset=dg.AssetSpec("invoices", deps=[key])).spec
    assert [dep.asset_key for dep in named.deps] == [key]
    assert list(consumer(queue.name, lineage=False).spec.deps) == []
