"""What `dg scaffold defs` writes runs unchanged on Redis and Spark: a publisher, a Spark job and the sensor for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.component_scaffolding import scaffold_object

from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource, components

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.BetaWarning"),
    # Dagster deprecates a function that it uses itself to make observable assets external ones.
    pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning"),
]
COMPONENTS = {
    "orders": "RedisQueuePublishComponent",
    "letters": "RedisQueueConsumeComponent",
    "invoices": "RedisQueueSparkComponent",
    "doorbell": "RedisQueueSensorComponent",
}


def scaffold(project: Path, queue: str, name: str, **more: str) -> None:
    """`dg scaffold defs rmq_dagster.components.… name --queue queue`, with --asset, or --target for the sensor."""
    folder = project / "scaffolded_shop" / "defs" / name
    given = {"target": "invoices"} if name == "doorbell" else {"asset": name}
    params = json.dumps({"queue": queue, **given, **more})
    scaffold_object(folder, f"rmq_dagster.components.{COMPONENTS[name]}", params, "yaml", project)


def loaded(project: Path, resource: RedisQueueResource) -> dg.Definitions:
    """The definitions of the project, as `dg check defs` loads them."""
    folder = dg.load_from_defs_folder(path_within_project=project)
    defs = dg.Definitions.merge(folder, dg.Definitions(resources={"redis_queue": resource}))
    dg.Definitions.validate_loadable(defs)
    return defs


def materialize(project: Path, resource: RedisQueueResource, asset: str, **options: Any) -> None:
    defs = loaded(project, resource)
    job = defs.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(asset_selection=[dg.AssetKey(asset)], **options).success


@pytest.mark.nightly("dagster/test_pipes.py::test_a_driver_that_adopts_settles_itself_and_the_run_only_watches")
def test_the_scaffolded_messages_are_published_and_the_scaffolded_job_shows_and_acks_them(
    project: Path,
    queue: LeasedQueue,
    redis_queue: RedisQueueResource,
    instance: dg.DagsterInstance,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in COMPONENTS:
        scaffold(project, queue.name, name)
    for _ in range(2):  # the second time, they are duplicates
        materialize(project, redis_queue, "orders", instance=instance)
    assert [message.payload for message in queue.admin.peek(9)] == [{"name": "first"}, {"name": "second"}]
    materialize(project, redis_queue, "invoices", instance=instance)
    assert '{"name":"second"}' in capfd.readouterr().out
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_the_scaffolded_function_works_on_the_scaffolded_messages(
    project: Path,
    queue: LeasedQueue,
    redis_queue: RedisQueueResource,
    instance: dg.DagsterInstance,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("orders", "letters"):
        scaffold(project, queue.name, name)
    materialize(project, redis_queue, "orders", instance=instance)
    materialize(project, redis_queue, "letters", instance=instance)
    assert "{'name': 'second'}" in capsys.readouterr().out
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_partitions_are_scaffolded_for_publisher_consumer_and_sensor(
    project: Path, queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    scaffold(project, queue.name, "orders", partitions="names", partition_by="name")
    scaffold(project, queue.name, "letters", partitions="names")
    scaffold(project, queue.name, "doorbell", partitions="names", target="letters")
    materialize(project, redis_queue, "orders", instance=instance)
    bell = loaded(project, redis_queue).resolve_sensor_def(f"{queue.name}_doorbell")
    with dg.build_sensor_context(instance, resources={"redis_queue": redis_queue}, sensor_name=bell.name) as context:
        requests = bell(context).run_requests  # type: ignore[union-attr]
    assert sorted(str(request.partition_key) for request in requests) == ["first", "second"]
    instance.add_dynamic_partitions("names", ["first", "second"])
    materialize(project, redis_queue, "letters", instance=instance, partition_key="second")
    assert [redis_queue.stats(f"{queue.name}/{name}").ready for name in ("first", "second")] == [1, 0]


def test_the_scaffolded_sensor_requests_runs_of_the_scaffolded_job_and_its_observer_runs(
    project: Path, queue: LeasedQueue, redis_queue: RedisQueueResource, instance: dg.DagsterInstance
) -> None:
    for name in COMPONENTS:
        scaffold(project, queue.name, name)
    defs = loaded(project, redis_queue)
    queue.publish_many(["a", "b"])

    def tick(name: str) -> Any:
        resources = {"redis_queue": redis_queue}
        with dg.build_sensor_context(instance, resources=resources, sensor_name=name) as context:
            return defs.resolve_sensor_def(name)(context)

    assert len(tick(f"{queue.name}_doorbell").run_requests) == 2
    seen, dead, check = tick(f"{queue.name}_observer").asset_events
    assert (seen.metadata["rmq/depth"].value, dead.metadata["rmq/dead_letters"].value, check.passed) == (2, 0, True)


def test_every_component_can_be_scaffolded() -> None:
    elsewhere = "RedisQueueServerComponent"  # tests/dagster/test_server_component.py
    assert sorted([*COMPONENTS.values(), elsewhere]) == sorted(components.__all__)
