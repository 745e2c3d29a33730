"""The example, run as its docstring says, with a real Spark: all numbers are correct, and no secret is shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from rmq_core import LeasedQueue
from tests.airflow.conftest import CANARY, HOME
from tests.airflow.home import EXAMPLES, stored

pytestmark = pytest.mark.slow

COUNTS = {
    "published": 1095,
    "deduplicated": 1095,
    "claimed": 1095,
    "acked": 1095,
    "ready": 0,
    "leased": 0,
    "dead": 0,
    "airport_days": 1095,
    "rows": 336_776,
    "united_rows": 58_665,
}


@pytest.fixture
def spark_defaults(tmp_path: Path) -> dict[str, str]:
    """Spark with an event log, which contains what the environment page shows."""
    events, settings = tmp_path / "events", tmp_path / "conf"
    events.mkdir()
    settings.mkdir()
    lines = ["spark.eventLog.enabled true", f"spark.eventLog.dir file://{events}", "spark.eventLog.compress false"]
    (settings / "spark-defaults.conf").write_text("\n".join(lines))
    return {"SPARK_CONF_DIR": str(settings)}


def command_lines() -> Iterator[str]:
    """Return the command line of every process that `ps` shows."""
    for process in psutil.process_iter(["cmdline"]):
        yield " ".join(process.info["cmdline"] or [])


def run(environment: dict[str, str], log: Path) -> tuple[int, set[str]]:
    """Return the exit code of the example, and every command line that was seen while it ran."""
    seen: set[str] = set()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, EXAMPLES / "flights_airflow.py"], env=environment, stdout=output, stderr=output
        )
        while process.poll() is None:
            seen.update(command_lines())
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
    return process.returncode, seen


@pytest.mark.nightly("spark/test_delays_job.py::test_a_stream_writes_the_same_in_several_batches_and_acks_it")
def test_every_flight_is_counted_once_and_no_secret_shows(
    connection: str,
    secured_url: str,
    airflow_database: None,
    tmp_path: Path,
    spark_defaults: dict[str, str],
) -> None:
    results, log = tmp_path / "results", tmp_path / "log"
    spark = {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"})}
    # Without the folder of the interpreter on PATH, as when Airflow is started by its full name.
    path = {"PATH": os.environ["PATH"].replace(str(Path(sys.executable).parent), "")}
    code, seen = run({**os.environ, **spark, **path, **spark_defaults, "RMQ_DEMO_RESULTS": str(results)}, log)
    assert code == 0, log.read_text(errors="replace")[-3000:]
    assert json.loads((results / "airflow.json").read_text()) == COUNTS
    with LeasedQueue(secured_url, "airport-days") as queue:
        assert queue.stats()[:5] == (0, 0, 0, 0, 0)
    check_for_secrets(log, tmp_path / "events", seen)


def check_for_secrets(log: Path, events: Path, seen: set[str]) -> None:
    """Assert that no secret is in a command line, log, event log or database, and that each of these exists."""
    assert any("org.apache.spark.deploy.SparkSubmit" in line for line in seen)
    assert not any(CANARY in line for line in seen)
    files = {"log": [log], "Spark": events.rglob("*"), "Airflow": HOME.rglob("*")}
    found = {name: stored(group) for name, group in files.items()}
    assert b"Claimed 1095 messages" in found["log"]
    assert b"SparkListenerEnvironmentUpdate" in found["Spark"]
    assert b"flights_airflow" in found["Airflow"]
    for name, content in found.items():
        assert CANARY.encode() not in content, name
