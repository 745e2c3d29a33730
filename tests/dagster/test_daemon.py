from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster.tags import CLAIMED, RUN_KEY, SENSOR
from tests.dagster.pipeline import ROOT, notes
from tests.faults.patience import PATIENCE_S

pytestmark = pytest.mark.slow


@contextmanager
def daemon(home: str, log: Path, **settings: str) -> Iterator[None]:
    program = Path(sys.executable).parent / "dagster-daemon"
    env = {**os.environ, "DAGSTER_HOME": home, "PYTHONPATH": str(ROOT), **settings}
    with log.open("wb") as output:
        started = subprocess.Popen(
            [str(program), "run", "-m", "tests.dagster.deployed"],
            env=env, cwd=ROOT, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        yield
    finally:
        os.killpg(started.pid, signal.SIGTERM)
        started.wait(PATIENCE_S)


def wait_until(condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.2)


def test_a_run_is_requested_again_for_a_failed_message_and_none_after_its_ack(
    queue: LeasedQueue, redis_url: str, instance: dg.DagsterInstance, seen: Path, tmp_path: Path
) -> None:
    log = tmp_path / "daemon.log"
    filters = dg.RunsFilter(tags={SENSOR: "bell"})
    queue.publish("once more")
    with daemon(instance.root_directory, log, TEST_QUEUE=queue.name, TEST_RMQ_URL=redis_url, TEST_SEEN=str(seen)):
        wait_until(lambda: queue.stats()[:5] == (0, 0, 0, 0, 0), log)
        wait_until(lambda: all(run.is_finished for run in instance.get_runs(filters)), log)
    succeeded, failed = instance.get_runs(filters)
    assert [run.status.value for run in (failed, succeeded)] == ["FAILURE", "SUCCESS"]
    assert [run.tags[RUN_KEY] for run in (failed, succeeded)] == [f"{queue.name}:1", f"{queue.name}:2"]
    assert [run.tags[CLAIMED] for run in (failed, succeeded)] == ["1", "1"]
    assert notes(seen)[1]["payloads"] == ["once more"]


def test_plots_and_checks_of_a_queue_appear_without_a_schedule(
    queue: LeasedQueue, redis_url: str, instance: dg.DagsterInstance, seen: Path, tmp_path: Path
) -> None:
    log, key = tmp_path / "daemon.log", dg.AssetKey(f"{queue.name}_watched_queue")
    check = dg.AssetCheckKey(key, f"{queue.name}_watched_dead_letters")
    storage = instance.event_log_storage
    with daemon(instance.root_directory, log, TEST_QUEUE=queue.name, TEST_RMQ_URL=redis_url, TEST_SEEN=str(seen)):
        wait_until(lambda: bool(storage.get_asset_check_execution_history(check, limit=1)), log)
    (seen_once,) = instance.fetch_observations(key, limit=1).records
    observed = seen_once.asset_observation
    assert observed is not None
    assert observed.metadata["rmq/depth"].value == 0
    (evaluated,) = storage.get_asset_check_execution_history(check, limit=1)
    assert evaluated.status.value == "SUCCEEDED"
    assert instance.get_runs() == []
