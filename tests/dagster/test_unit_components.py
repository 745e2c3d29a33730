"""The components as YAML defines them; tests/dagster/test_components.py tests their runs."""

from __future__ import annotations

import inspect
from typing import Any

import dagster as dg
import pytest

from rmq_core import ConfigurationError
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor
from rmq_dagster.components import (
    RedisQueuePublishComponent,
    RedisQueueSensorComponent,
    RedisQueueSparkComponent,
)
from rmq_dagster.components.base import QueueComponent

# Dagster turns observable assets into external assets with a function that it has itself deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning")

RESOURCE = RedisQueueResource(url="redis://localhost:1")


def load(component: type[QueueComponent], **attributes: Any) -> tuple[Any, dg.Definitions]:
    """Return a component from the attributes of its YAML, and its definitions."""
    context = dg.ComponentTree.for_test().load_context
    made = component.from_attributes_dict(attributes={"queue": "orders", **attributes}, context=context)
    return made, dg.Definitions.merge(made.build_defs(context), dg.Definitions(resources={"redis_queue": RESOURCE}))


def test_every_option_of_a_sensor_is_an_attribute_and_every_attribute_reaches_it() -> None:
    component, _ = load(RedisQueueSensorComponent, target="invoices")
    passed = component.sensor_options().keys()
    parameters = inspect.signature(build_redis_queue_sensor).parameters.values()
    options = {parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY}
    assert options - {"target", "config", "resource_key"} <= passed
    own = RedisQueueSensorComponent.model_fields.keys() - QueueComponent.model_fields.keys()
    elsewhere = {"target", "running", "limits", "observe_every_seconds", "publishers"}
    assert {name if name in passed else name.removesuffix("_seconds") for name in own - elsewhere} <= passed


def test_a_text_in_place_of_a_number_is_valid_yaml_but_refused_when_definitions_are_loaded() -> None:
    attributes = {"queue": "orders", "target": "invoices", "batch": "many"}
    assert RedisQueueSensorComponent.get_model_cls().model_validate(attributes)  # text may be a template
    with pytest.raises(ValueError, match=r"(?s)batch.*valid integer.*many"):
        load(RedisQueueSensorComponent, **attributes)


def test_a_publisher_is_an_asset_with_the_attributes_of_its_spec() -> None:
    spec = {"key": "shop/orders", "group_name": "shop", "deps": ["till"], "kinds": ["redis"]}
    _, defs = load(RedisQueuePublishComponent, asset=spec, messages=["a"])
    made = defs.resolve_all_asset_specs()
    (found,) = [one for one in made if one.key == dg.AssetKey(["shop", "orders"])]
    assert (found.group_name, found.kinds) == ("shop", {"redis"})


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        ({}, "either `messages` or `function`"),
        ({"messages": ["a"], "function": "x.y"}, "either `messages` or `function`"),
        ({"messages": ["a"], "partitions": "countries"}, "`partitions` and `partition_by`"),
        ({"messages": ["a"], "partition_by": "country"}, "`partitions` and `partition_by`"),
    ],
)
def test_an_invalid_publisher_is_refused(attributes: dict[str, Any], complaint: str) -> None:
    component = RedisQueuePublishComponent(queue="orders", asset=dg.AssetSpec("orders"), **attributes)
    with pytest.raises(ConfigurationError, match=complaint):
        component.build_defs(dg.ComponentTree.for_test().load_context)


def test_a_spark_job_of_partitions_is_a_partitioned_asset_that_is_retried() -> None:
    _, defs = load(
        RedisQueueSparkComponent, asset={"key": "invoices"}, application="job.py", partitions="countries", retries=3
    )
    graph = defs.resolve_asset_graph()
    partitions = graph.get(dg.AssetKey("invoices")).partitions_def
    assert isinstance(partitions, dg.DynamicPartitionsDefinition)
    assert partitions.name == "countries"
    policy = defs.resolve_assets_def("invoices").op.retry_policy
    assert policy is not None
    assert policy.max_retries == 3


def test_components_share_the_resource_by_its_key() -> None:
    job = RedisQueueSparkComponent(
        queue="orders", asset=dg.AssetSpec("invoices"), application="job.py", resource_key="other_redis"
    )
    bell = RedisQueueSensorComponent(queue="orders", target="invoices", resource_key="other_redis")
    context = dg.ComponentTree.for_test().load_context
    resources = dg.Definitions(resources={"other_redis": RESOURCE})
    defs = [one.build_defs(context) for one in (job, bell)]
    dg.Definitions.validate_loadable(dg.Definitions.merge(*defs, resources))
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="other_redis"):
        dg.Definitions.validate_loadable(dg.Definitions.merge(*defs))
