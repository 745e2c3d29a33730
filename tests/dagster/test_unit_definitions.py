from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from rmq_core import ConfigurationError
from rmq_dagster import (
    Limit,
    QueueLimits,
    QueuePartitions,
    RedisQueueResource,
    build_redis_queue_sensor,
    redis_queue_definitions,
    redis_queue_redrive_job,
)

# Dagster deprecates a function that it uses itself to make observable assets external ones.
pytestmark = pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning")

RESOURCE = RedisQueueResource(url="redis://localhost:1")


@dg.asset
def invoices() -> None: ...


def names(defs: dg.Definitions) -> set[str]:
    return {sensor.name for sensor in defs.sensors or ()}


def test_one_call_makes_a_doorbell_status_sensors_an_asset_and_a_check_for_dead_letters() -> None:
    defs = redis_queue_definitions("shop/orders", target=invoices, resource=RESOURCE)
    made = ("doorbell", "on_failure", "on_cancel", "on_canceling", "observer")
    assert names(defs) == {f"shop_orders_{sensor}" for sensor in made}
    graph = defs.resolve_asset_graph()
    assert dg.AssetKey("shop_orders_queue") in graph.get_all_asset_keys()
    assert [key.name for key in graph.asset_check_keys] == ["shop_orders_dead_letters"]


def test_queues_of_partitions_have_one_asset_whose_partitions_are_checked() -> None:
    tenants = QueuePartitions("orders", dg.DynamicPartitionsDefinition(name="tenants"))
    limits = QueueLimits(depth=Limit(warn=9))
    defs = redis_queue_definitions(tenants, target=invoices, limits=limits, publishers=["till"], resource=RESOURCE)
    made = ("doorbell", "on_failure", "on_cancel", "on_canceling", "observer")
    assert names(defs) == {f"orders_{sensor}" for sensor in made}
    graph = defs.resolve_asset_graph()
    node = graph.get(dg.AssetKey("orders_queue"))
    assert (node.partitions_def, node.parent_keys) == (tenants.definition, {dg.AssetKey("till")})
    assert {key.name for key in graph.asset_check_keys} == {"orders_dead_letters", "orders_depth"}


@pytest.mark.parametrize("define", [redis_queue_definitions, build_redis_queue_sensor, redis_queue_redrive_job])
@pytest.mark.parametrize("several", [["x", "y"], ("x",), None, 7])
def test_several_queues_are_refused_with_the_way_to_define_them(define: Any, several: Any) -> None:
    terms = {} if define is redis_queue_redrive_job else {"target": "work"}
    with pytest.raises(ConfigurationError, match=r"^queue must be .*merge"):
        define(several, **terms)
