"""The components as YAML defines them; tests/dagster/test_components.py tests their runs."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rmq_core import ConfigurationError, LeasedConfig
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor
from rmq_dagster.components import (
    RedisQueueConsumeComponent,
    RedisQueuePublishComponent,
    RedisQueueSensorComponent,
    RedisQueueSparkComponent,
)
from rmq_dagster.components.base import QueueComponent, QueueSettings
from rmq_dagster.components.sensor import LimitSettings, LimitsSettings

# Dagster turns observable assets into external assets with a function that it has itself deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning")

COMPONENTS = [
    RedisQueueConsumeComponent,
    RedisQueuePublishComponent,
    RedisQueueSensorComponent,
    RedisQueueSparkComponent,
]
RESOURCE = RedisQueueResource(url="redis://localhost:1")
ENDINGS = [f"orders_on_{ending}" for ending in ("failure", "cancel", "canceling")]
MODELS = [*COMPONENTS, QueueSettings, LimitSettings, LimitsSettings]


def load(component: type[QueueComponent], **attributes: Any) -> tuple[Any, dg.Definitions]:
    """Return a component from the attributes of its YAML, and its definitions."""
    context = dg.ComponentTree.for_test().load_context
    made = component.from_attributes_dict(attributes={"queue": "orders", **attributes}, context=context)
    return made, dg.Definitions.merge(made.build_defs(context), dg.Definitions(resources={"redis_queue": RESOURCE}))


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.__name__)
def test_a_component_has_a_schema_for_editors(component: Any) -> None:
    assert {"queue", "resource_key"} <= component.get_model_cls().model_json_schema()["properties"].keys()


def test_a_sensor_receives_its_attributes() -> None:
    component, defs = load(
        RedisQueueSensorComponent, target="invoices", batch=50, max_age_seconds=9, minimum_interval_seconds=5,
        running=False, settings={"lease_seconds": 60}, limits={"depth": {"warn": 5}},
    )  # fmt: skip
    options = component.sensor_options()
    assert (options["batch"], options["max_age"], options["minimum_interval_seconds"]) == (50, 9, 5)
    assert component.config == LeasedConfig(lease=60)
    stopped = dg.DefaultSensorStatus.STOPPED
    statuses = {
        sensor.name: sensor.default_status for sensor in defs.sensors or () if isinstance(sensor, dg.SensorDefinition)
    }
    assert statuses == dict.fromkeys({"orders_doorbell", "orders_observer", *ENDINGS}, stopped)
    checks = sorted(key.name for key in defs.resolve_asset_graph().asset_check_keys)
    assert checks == ["orders_dead_letters", "orders_depth"]


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


def test_a_list_for_a_number_is_no_valid_yaml() -> None:
    attributes = {"queue": "orders", "target": "invoices", "batch": [1]}
    with pytest.raises(ValueError, match="batch"):
        RedisQueueSensorComponent.get_model_cls().model_validate(attributes)


def test_a_sensor_of_partitions_has_no_asset() -> None:
    component, defs = load(RedisQueueSensorComponent, target="invoices", partitions="countries", most_partitions=7)
    assert (component.queues.prefix, component.queues.most) == ("orders", 7)
    assert not list(defs.assets or ())


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


def test_messages_are_sorted_into_the_queues_of_their_partitions() -> None:
    component = RedisQueuePublishComponent(
        queue="orders", asset=dg.AssetSpec("orders"), partitions="countries", partition_by="country", messages=[]
    )
    north, south = {"country": "a/b"}, {"country": 7}
    assert component.sorted([north, south, north]) == {"orders/a/b": [north, north], "orders/7": [south]}
    for payload in ({"land": "de"}, "de", ["country"]):
        with pytest.raises(ConfigurationError, match="partition_by='country' is not a field"):
            component.sorted([payload])
    with pytest.raises(ConfigurationError, match="payload 1 belongs in no queue, so none was published"):
        component.model_copy(update={"queue": 300 * "x"}).sorted([north, {"country": 250 * "y"}])


def test_pysparks_own_submit_starts_a_spark_job_by_default() -> None:
    job = {"queue": "orders", "asset": dg.AssetSpec("invoices"), "application": "job.py", "arguments": ["--fast"]}
    folder = Path("/defs/invoices")
    tail = ["/defs/invoices/job.py", "--fast"]
    assert RedisQueueSparkComponent(**job).command(folder) == [sys.executable, "-m", "rmq_spark.submit", *tail]
    yarn = RedisQueueSparkComponent(**job, submit=["spark-submit", "--master", "yarn"])
    assert yarn.command(folder) == ["spark-submit", "--master", "yarn", *tail]


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


@pytest.mark.parametrize(("attribute", "value"), [("per", "each"), ("on_error", "ignore")])
def test_an_unknown_way_to_call_a_function_is_refused(attribute: str, value: str) -> None:
    with pytest.raises(ValueError, match=attribute):
        load(RedisQueueConsumeComponent, asset={"key": "invoices"}, function=".work.write", **{attribute: value})


def test_an_unknown_value_of_on_settled_is_refused() -> None:
    job: dict[str, Any] = {"queue": "orders", "asset": dg.AssetSpec("invoices"), "application": "job.py"}
    with pytest.raises(ValueError, match="on_settled"):
        RedisQueueSparkComponent(**job, on_settled="again")


def test_an_invalid_limit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="warn <= error"):
        LimitsSettings(depth=LimitSettings(warn=2, error=1)).limits()


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
