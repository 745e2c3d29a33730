from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from example_dags import flights
from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource
from rmq_dagster.runs.identity import QUEUE
from tests.dagster.pipeline import ROOT

# Dagster itself uses deprecated and preview features: in its Pipes session, and when it finds the checks of assets.
pytestmark = [
    pytest.mark.nightly("dagster/test_pipes.py::test_a_driver_that_adopts_settles_itself_and_the_run_only_watches"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
    pytest.mark.filterwarnings("ignore:Parameter `execution_type`:dagster_shared.utils.warnings.BetaWarning"),
]

DAYS = 2
Run = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture(scope="module")
def project() -> Iterator[dg.Definitions]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "example_dags" / "flights_project" / "src")
        yield importlib.import_module("flights_project.definitions").defs()


@pytest.fixture
def resources(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Limit the project to the first days of 2013 and its results to a folder of the test; return its resources."""
    items = flights.work_items()[: 3 * DAYS]
    monkeypatch.setenv("RMQ_URL", redis_url)
    monkeypatch.setenv("RMQ_DEMO_RESULTS", str(tmp_path))
    monkeypatch.setattr(flights, "work_items", lambda: items)
    return {"redis_queue": RedisQueueResource(url=redis_url)}


@pytest.fixture
def run(project: dg.Definitions, resources: dict[str, Any], instance: dg.DagsterInstance) -> Run:
    """Materialize one asset of the project, with its checks."""

    def materialize(name: str, partition: str | None = None) -> dg.ExecuteInProcessResult:
        job = project.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            instance=instance, asset_selection=[dg.AssetKey(name)], partition_key=partition, raise_on_error=False
        )

    return materialize


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def test_the_days_of_an_airport_go_from_the_publisher_through_the_sensor_to_the_spark_job_of_its_partition(
    project: dg.Definitions, resources: dict[str, Any], instance: dg.DagsterInstance, run: Run, redis_url: str
) -> None:
    published = metadata(run("airport_days"))
    assert (published["rmq/published"], published["rmq/queues"]) == (3 * DAYS, 3)
    assert metadata(run("airport_days"))["rmq/duplicates"] == 3 * DAYS

    sensor = project.resolve_sensor_def("airport_days_doorbell")
    with dg.build_sensor_context(instance=instance, resources=resources, sensor_name=sensor.name) as context:
        tick: Any = sensor(context)
    requests = sorted((request.partition_key, request.tags[QUEUE]) for request in tick.run_requests)
    assert requests == [(airport, f"airport-days/{airport}") for airport in ("EWR", "JFK", "LGA")]
    (added,) = tick.dynamic_partitions_requests
    instance.add_dynamic_partitions("airports", added.partition_keys)

    result = run("departure_delays", "JFK")
    worked = metadata(result)
    assert (worked["rmq/claimed"], worked["rmq/acked"], worked["airport_days"]) == (DAYS, DAYS, DAYS)
    assert worked["rows"] == 618
    assert "data:image/png;base64," in worked["plot"]
    checks = result.get_asset_check_evaluations()
    assert len(checks) == 6
    assert all(check.passed for check in checks)
    left = {}
    for airport in ("EWR", "JFK", "LGA"):
        with LeasedQueue(redis_url, f"airport-days/{airport}") as queue:
            left[airport] = queue.stats()[:5]
            queue.admin.purge("ready")
    assert left == {"EWR": (DAYS, 0, 0, 0, 0), "JFK": (0, 0, 0, 0, 0), "LGA": (DAYS, 0, 0, 0, 0)}
