from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from example_dags import flights_dagster
from example_dags.flights import work_items
from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource

# Dagster's own Pipes session calls what Dagster itself deprecates or calls a preview.
pytestmark = [
    pytest.mark.nightly("dagster/test_pipes.py::test_a_driver_that_adopts_settles_itself_and_the_run_only_watches"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:AssetExecutionContext.run_id is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::dagster_shared.utils.warnings.PreviewWarning"),
]

DAYS = 2


@pytest.fixture
def example(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LeasedQueue]:
    """The example with the first days of 2013 only, in directories of its own."""
    monkeypatch.setenv("RMQ_URL", redis_url)
    monkeypatch.setattr(flights_dagster, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(flights_dagster, "work_items", lambda: work_items()[: 3 * DAYS])
    with LeasedQueue(redis_url, flights_dagster.QUEUE, flights_dagster.CONFIG) as queue:
        yield queue


def metadata(result: dg.ExecuteInProcessResult, asset: str) -> dict[str, Any]:
    (event,) = result.asset_materializations_for_node(asset)
    return {name: value.value for name, value in event.metadata.items()}


def test_the_example_survives_a_spark_driver_that_is_killed_in_mid_job(
    example: LeasedQueue, redis_url: str, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMQ_DEMO_CRASH_MARKER", str(tmp_path / "killed"))
    result = dg.materialize(
        [flights_dagster.airport_days, flights_dagster.departure_delays],
        instance=instance,
        resources={"redis_queue": RedisQueueResource(url=redis_url)},
    )
    assert result.success
    assert (tmp_path / "killed").exists()
    assert [event for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY"]

    published = metadata(result, "airport_days")
    assert (published["published"], published["deduplicated"]) == (6, 6)
    worked = metadata(result, "departure_delays")
    assert (worked["rmq/claimed"], worked["rmq/acked"], worked["airport_days"]) == (6, 6, 6)
    assert (worked["rows"], worked["items"]) == (1785, 6)
    assert "data:image/png;base64," in worked["plot"]
    assert (flights_dagster.RESULTS / "delays.png").read_bytes().startswith(b"\x89PNG")
    assert example.stats()[:5] == (0, 0, 0, 0, 0)


def test_its_sensor_requests_a_run_for_ready_messages(
    example: LeasedQueue, redis_url: str, instance: dg.DagsterInstance
) -> None:
    example.publish({"origin": "EWR", "day": "2013-12-31"})
    resources = {"redis_queue": RedisQueueResource(url=redis_url)}
    with dg.build_sensor_context(
        instance=instance, resources=resources, repository_def=flights_dagster.defs.get_repository_def()
    ) as context:
        result = flights_dagster.doorbell(context)
    assert isinstance(result, dg.SensorResult)
    assert [request.run_key for request in result.run_requests or ()] == [f"{flights_dagster.QUEUE}:1"]
    example.admin.purge("ready")
