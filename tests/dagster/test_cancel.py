from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from tests.dagster.pipeline import ROOT, notes
from tests.faults.patience import PATIENCE_S, eventually

pytestmark = pytest.mark.slow
End = Callable[[subprocess.Popen[bytes], dg.DagsterInstance], None]


def wait_for_driver(seen: Path, run: subprocess.Popen[bytes]) -> dict[str, int]:
    eventually(lambda: notes(seen) or run.poll() is not None)
    assert notes(seen), "the run ended before its driver started"
    return notes(seen)[0]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def terminate(run: subprocess.Popen[bytes], instance: dg.DagsterInstance) -> None:
    """Terminate the run as the launcher does when a user presses "Terminate"."""
    instance.report_run_canceling(instance.get_runs()[0])
    run.send_signal(signal.SIGINT)


def shut_down(run: subprocess.Popen[bytes], instance: dg.DagsterInstance) -> None:
    """Send SIGTERM as a deployment does; Dagster treats it as a failure and has no notice of it before."""
    run.send_signal(signal.SIGTERM)


ALIKE = pytest.mark.nightly(
    "dagster/test_cancel.py::test_terminating_a_run_stops_all_processes_of_its_driver_and_releases_the_messages"
)


@pytest.mark.parametrize(
    ("end", "job"),
    [
        (terminate, "launched"),
        (shut_down, "launched_in_processes"),
        pytest.param(terminate, "launched_with_a_retry", marks=ALIKE),
        pytest.param(terminate, "launched_in_processes", marks=ALIKE),
        pytest.param(shut_down, "launched", marks=ALIKE),
        pytest.param(shut_down, "launched_with_a_retry", marks=ALIKE),
    ],
)
def test_terminating_a_run_stops_all_processes_of_its_driver_and_releases_the_messages(
    job: str, end: End, queue: LeasedQueue, redis_url: str, on_disk: dg.DagsterInstance, seen: Path, tmp_path: Path
) -> None:
    queue.publish_many(["a", "b"])
    work = {"queue": queue.name, "behaviours": ["hang"], "seen": str(seen)}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"resources": {"work": {"config": work}}}))
    command = [sys.executable, "-m", "dagster", "job", "execute", "-m", "tests.dagster.pipeline", "-a", job]
    env = {**os.environ, "DAGSTER_HOME": on_disk.root_directory, "TEST_RMQ_URL": redis_url, "PYTHONPATH": str(ROOT)}
    with (tmp_path / "run.log").open("wb") as log:
        run = subprocess.Popen([*command, "-c", str(config)], env=env, cwd=ROOT, stdout=log, stderr=log)
    try:
        driver = wait_for_driver(seen, run)
        end(run, on_disk)
        run.wait(PATIENCE_S)
    finally:
        run.kill()
    assert len(notes(seen)) == 1
    assert not alive(driver["pid"])
    assert not alive(driver["child"])
    (record,) = on_disk.get_runs()
    assert record.status is (dg.DagsterRunStatus.CANCELED if end is terminate else dg.DagsterRunStatus.FAILURE)
    assert queue.stats().leases == 0
    assert [(message.payload, message.deliveries, message.history) for message in queue.admin.peek(10)] == [
        ("a", 0, ()),
        ("b", 0, ()),
    ]
