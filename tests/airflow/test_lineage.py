"""What OpenLineage's own listener emits for our operators; without its provider, nothing is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from tests.airflow.conftest import CANARY
from tests.airflow.home import DAGS, ROOT

RUN = f"""
from airflow.dag_processing.dagbag import DagBag
bag = DagBag({str(DAGS / "lineage.py")!r}, bundle_path={str(DAGS)!r}, bundle_name="tests")
assert bag.import_errors == {{}}
bag.dags["lineage"].test()
"""
PINS = ROOT / "tests/airflow/openlineage.txt"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the OpenLineage provider, for the path of another Python; empty if it is installed here."""
    folder = tmp_path_factory.mktemp("openlineage")
    if find_spec("airflow.providers.openlineage") is None:
        install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        subprocess.run([*install, "--requirements", str(PINS)], check=True)
    return folder


@pytest.fixture
def events(connection: str, airflow_database: None, provider: Path, tmp_path: Path) -> dict[tuple[str, str], Any]:
    """Run the DAG with OpenLineage's listener; return its events by task and kind."""
    log = tmp_path / "events"
    transport = json.dumps({"type": "file", "log_file_path": str(log), "append": True})
    path = os.pathsep.join(filter(None, [str(provider), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"AIRFLOW__OPENLINEAGE__TRANSPORT": transport, "PYTHONPATH": path}
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUN],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert log.exists(), made.stdout + made.stderr
    assert CANARY not in log.read_text()
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return {(each["job"]["name"], each["eventType"]): each for each in found}


def datasets(event: Any, side: str) -> list[tuple[str, str]]:
    return [(each["namespace"], each["name"]) for each in event[side]]


@pytest.mark.slow
def test_the_runs_of_publisher_and_consumers_meet_in_the_dataset_of_the_queue(
    events: dict[tuple[str, str], Any], secured_url: str
) -> None:
    place = urlsplit(secured_url)
    queue = (f"rmq://{place.hostname}:{place.port}/{place.path.strip('/') or 0}", "work")
    published, failed, worked = (
        events[f"lineage.{name}", kind]
        for name, kind in (("publish", "COMPLETE"), ("fail", "FAIL"), ("work", "COMPLETE"))
    )
    assert datasets(published, "outputs") == [queue]
    assert datasets(failed, "inputs") == [queue]
    assert datasets(worked, "inputs") == [queue, ("rmq://host:6379/0", "other")]
    assert published["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert failed["inputs"][0]["inputFacets"]["dataQualityMetrics"]["rowCount"] == 1
    assert worked["inputs"][0]["inputFacets"]["dataQualityMetrics"]["rowCount"] == 3
    assert failed["run"]["facets"]["rmq"]["queues"]["work"]["failed"] == 1
    assert worked["run"]["facets"]["rmq"]["queues"]["work"]["acked"] == 3


def test_without_the_provider_there_is_no_lineage_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.extractors", None)
    operator = RedisQueuePublishOperator(task_id="publish", redis_queue="work", messages=["a"])
    assert operator.get_openlineage_facets_on_failure(None) is None
