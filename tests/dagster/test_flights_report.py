from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from example_dags import flights_report_dagster as example
from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource
from rmq_dagster.runs.identity import PUBLICATION

pytestmark = [
    pytest.mark.nightly(
        "dagster/test_publications.py::test_a_run_is_requested_once_all_is_done_and_again_if_more_is_added"
    ),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning"),
]

FLIGHTS = 27_004
ITEMS = 33


@pytest.fixture
def queue(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LeasedQueue]:
    """The queue of the example, whose results are in a directory of its own."""
    monkeypatch.setenv("RMQ_URL", redis_url)
    monkeypatch.setattr(example, "RESULTS", tmp_path / "results")
    with LeasedQueue(redis_url, example.QUEUE, example.CONFIG) as opened:
        yield opened


def run(instance: dg.DagsterInstance, asset: str, tags: Any = None) -> dg.ExecuteInProcessResult:
    job = example.defs.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey(asset)], tags=tags)
    assert result.success
    return result


def requests(sensor: dg.SensorDefinition, instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    """Return what one tick requests."""
    repository = example.defs.get_repository_def()
    resources = {"redis_queue": RedisQueueResource(url=os.environ["RMQ_URL"])}
    with dg.build_sensor_context(instance=instance, repository_def=repository, resources=resources) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    return list(result.run_requests or ())


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def worked(instance: dg.DagsterInstance) -> int:
    """Run what the doorbell requests, until it requests nothing; return how many runs got messages."""
    runs = 0
    while asked := requests(example.doorbell, instance):
        runs += bool(metadata(run(instance, "airline_delays", asked[0].tags))["rmq/claimed"])
    return runs


def test_the_report_is_made_once_when_the_last_airline_is_done(
    queue: LeasedQueue, instance: dg.DagsterInstance
) -> None:
    assert metadata(run(instance, "airline_airports")) == {"items": ITEMS}
    assert len({group.name for group in queue.admin.groups(100)}) == 16
    held = queue.claim()  # by a run that still works
    assert held is not None
    assert worked(instance) >= (ITEMS - 4) / example.BATCH
    files = {file.stem for file in (example.RESULTS / "2013-01").iterdir()}
    assert len(files) == 15, "no other run works on the airline that a run holds"
    assert held.message.group not in files
    assert requests(example.month_is_done, instance) == []
    queue.release(held)
    assert worked(instance) == 1
    (request,) = requests(example.month_is_done, instance)
    assert request.tags[PUBLICATION] == "report 2013-01"
    reported = run(instance, "month_report", request.tags)
    found = metadata(reported)
    assert (found["month"], found["flights"]) == ("2013-01", FLIGHTS)
    assert "| UA | 4,637 |" in found["airlines"]
    (check,) = reported.get_asset_check_evaluations()
    assert check.passed
    counts = {name: value.value for name, value in check.metadata.items()}
    assert (counts["rmq/acked"], counts["rmq/dead"]) == (ITEMS, 0)
    assert [again.run_key for again in requests(example.month_is_done, instance)] == [request.run_key]
