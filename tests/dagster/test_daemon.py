from __future__ import annotations

import importlib
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
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill  # no public way to launch one

from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource
from rmq_dagster.runs.identity import CLAIMED, PUBLICATION, RUN_KEY, SENSOR
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


def test_a_daemon_requests_a_failed_message_again_and_shows_the_plots_of_a_queue(
    queue: LeasedQueue, redis_url: str, on_disk: dg.DagsterInstance, seen: Path, tmp_path: Path
) -> None:
    log, key = tmp_path / "daemon.log", dg.AssetKey(f"{queue.name}_watched_queue")
    check = dg.AssetCheckKey(key, f"{queue.name}_watched_dead_letters")
    storage = on_disk.event_log_storage
    queue.publish("once more")
    with daemon(on_disk.root_directory, log, TEST_QUEUE=queue.name, TEST_RMQ_URL=redis_url, TEST_SEEN=str(seen)):
        wait_until(lambda: queue.stats()[:5] == (0, 0, 0, 0, 0), log)
        wait_until(lambda: all(run.is_finished for run in on_disk.get_runs()), log)
        wait_until(lambda: bool(storage.get_asset_check_execution_history(check, limit=1)), log)
    succeeded, failed = on_disk.get_runs()  # none after the ack, and none for the plots, which need no schedule
    assert {run.tags[SENSOR] for run in (failed, succeeded)} == {"bell"}
    assert [run.status.value for run in (failed, succeeded)] == ["FAILURE", "SUCCESS"]
    assert [run.tags[RUN_KEY] for run in (failed, succeeded)] == [f"{queue.name}:1", f"{queue.name}:2"]
    assert [run.tags[CLAIMED] for run in (failed, succeeded)] == ["1", "1"]
    assert notes(seen)[1]["payloads"] == ["once more"]
    (seen_once,) = on_disk.fetch_observations(key, limit=1).records
    observed = seen_once.asset_observation
    assert observed is not None
    assert observed.metadata["rmq/depth"].value == 0
    (evaluated,) = storage.get_asset_check_execution_history(check, limit=1)
    assert evaluated.status.value == "SUCCEEDED"


@pytest.mark.nightly(
    "dagster/test_publications.py::test_a_run_is_requested_once_all_is_done_and_again_if_more_is_added"
)
def test_a_daemon_starts_one_run_for_each_end_of_a_publication(
    queue: LeasedQueue, redis_url: str, on_disk: dg.DagsterInstance, seen: Path, tmp_path: Path
) -> None:
    log, settings = tmp_path / "daemon.log", {"TEST_QUEUE": queue.name, "TEST_RMQ_URL": redis_url}
    ticks = dg.RunsFilter(tags={SENSOR: "reporter"})

    def later_ticks() -> int:
        (state,) = [each for each in on_disk.all_instigator_state() if each.instigator_name == "reporter"]
        return len(on_disk.get_ticks(state.instigator_origin_id, state.selector_id))

    with (
        LeasedQueue(redis_url, f"{queue.name}_counted") as counted,
        daemon(on_disk.root_directory, log, **settings, TEST_SEEN=str(seen)),
    ):
        counted.admin.configure(groups="fair")
        for number in (1, 2):
            counted.publish("work", publication="report")
            counted.ack(counted.claim())
            wait_until(lambda number=number: len(on_disk.get_runs(ticks)) == number, log)  # type: ignore[misc]
            before = later_ticks()
            wait_until(lambda before=before: later_ticks() >= before + 2, log)  # type: ignore[misc]
        wait_until(lambda: all(run.is_finished for run in on_disk.get_runs(ticks)), log)
    runs = on_disk.get_runs(ticks)
    assert [run.status.value for run in runs] == ["SUCCESS", "SUCCESS"]
    assert [run.tags[PUBLICATION] for run in runs] == ["report", "report"]


@pytest.mark.nightly("dagster/test_sensors.py::test_a_lost_cursor_never_repeats_a_run_key_that_dagster_would_skip")
def test_a_daemon_that_is_started_again_goes_on_with_new_run_keys(
    queue: LeasedQueue, redis_url: str, on_disk: dg.DagsterInstance, seen: Path, tmp_path: Path
) -> None:
    log, filters = tmp_path / "daemon.log", dg.RunsFilter(tags={SENSOR: "bell"})
    settings = {"TEST_QUEUE": queue.name, "TEST_RMQ_URL": redis_url, "TEST_SEEN": str(seen)}
    seen.write_text("{}\n")  # a first try, so that the drivers adopt at once
    for payload in ("before", "after"):
        queue.publish(payload)
        with daemon(on_disk.root_directory, log, **settings):
            wait_until(lambda: queue.stats()[:5] == (0, 0, 0, 0, 0), log)
            wait_until(lambda: all(run.is_finished for run in on_disk.get_runs(filters)), log)
    keys = [run.tags[RUN_KEY] for run in on_disk.get_runs(filters)]
    assert keys == [f"{queue.name}:2", f"{queue.name}:1"]
    assert [note["payloads"] for note in notes(seen)[1:]] == [["before"], ["after"]]


@pytest.mark.nightly("dagster/test_consume_component.py::test_a_partition_works_on_its_own_queue")
@pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Property `OpDefinition.version` is deprecated:DeprecationWarning")
def test_a_backfill_works_on_the_queue_of_each_partition(
    queue: LeasedQueue,
    redis_queue: RedisQueueResource,
    redis_url: str,
    on_disk: dg.DagsterInstance,
    seen: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"TEST_QUEUE": queue.name, "TEST_RMQ_URL": redis_url, "TEST_SEEN": str(seen)}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delitem(sys.modules, "tests.dagster.deployed", raising=False)
    graph = importlib.import_module("tests.dagster.deployed").defs.resolve_asset_graph()
    keys = {"de": 2, "es": 0, "fr": 1}
    on_disk.add_dynamic_partitions("countries", list(keys))
    for key, count in keys.items():
        redis_queue.publish(f"{queue.name}_letters/{key}", [f"{key}{number}" for number in range(count)])
    backfill = PartitionBackfill.from_asset_partitions(
        backfill_id="all",
        asset_graph=graph,
        partition_names=["de", "es", "fr"],
        asset_selection=[dg.AssetKey("letters")],
        backfill_timestamp=time.time(),
        tags={},
        dynamic_partitions_store=on_disk,
        all_partitions=False,
        title=None,
        description=None,
        run_config=None,
    )
    log = tmp_path / "daemon.log"
    with daemon(on_disk.root_directory, log, **settings):
        wait_until(lambda: bool(on_disk.all_instigator_state()), log)  # the daemon has loaded the definitions
        on_disk.add_backfill(backfill)
        wait_until(lambda: _status(on_disk) is BulkActionStatus.COMPLETED_SUCCESS, log)
    runs = on_disk.get_runs(dg.RunsFilter(tags={"dagster/backfill": "all"}))
    assert {run.tags["dagster/partition"]: run.tags[CLAIMED] for run in runs} == {"de": "2", "es": "0", "fr": "1"}
    assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}
    assert [redis_queue.stats(f"{queue.name}_letters/{key}").ready for key in keys] == [0, 0, 0]


def _status(instance: dg.DagsterInstance) -> BulkActionStatus:
    backfill = instance.get_backfill("all")
    assert backfill is not None
    assert backfill.status is not BulkActionStatus.FAILED, backfill.error
    return backfill.status
