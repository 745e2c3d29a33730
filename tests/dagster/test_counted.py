"""Which ends of a run count as a failed delivery: what people and deployments do does not, everything else does.

Each cause ends a real process of Dagster, once with a retry of the run left and once without. Afterwards a status
sensor, a tick of the doorbell or nothing but the end of the lease looks after what was held.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import pytest

from rmq_core import LeasedQueue
from rmq_dagster import RedisQueueResource, build_redis_queue_sensor, redis_queue_status_sensors
from rmq_dagster.runs import holders
from tests.dagster.counted import AFTERWARDS, CONFIG
from tests.dagster.pipeline import ROOT
from tests.faults.patience import PATIENCE_S, eventually

pytestmark = pytest.mark.slow
FAILED, CANCELED = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED
RELEASED, HELD = "released", "held"


class Row(NamedTuple):
    """What becomes of the messages: the reason of the failed delivery, or RELEASED, or HELD for the retry.

    by_step: the step settles them itself, so that they are ready at once. expired: what the end of the lease does to
    messages that nothing settles before. says: what the log of the run says.
    """

    cause: str
    worker: str
    without_retry: str
    with_retry: str
    by_step: bool
    says: str = ""


NACKED, KEPT, ENDED = "nacked: this was the last", "kept for the retry", "released: the run, or its process, was ended"
TABLE = [
    Row("exception", "run_worker", "ValueError: as told", HELD, by_step=True, says=NACKED),
    Row("memory error", "run_worker", "MemoryError", HELD, by_step=True, says=NACKED),
    Row("timeout", "run_worker", "the run exceeded its maximum runtime", HELD, by_step=True, says=NACKED),
    Row("kill", "step_worker", "run {run} failed", HELD, by_step=False),
    Row("kill", "run_worker", "run {run} failed", HELD, by_step=False),
    Row("SIGTERM", "run_worker", RELEASED, RELEASED, by_step=True, says=ENDED),
    Row("SIGTERM", "step_worker", RELEASED, RELEASED, by_step=True, says=ENDED),
    Row("termination", "run_worker", RELEASED, RELEASED, by_step=True, says=ENDED),
    Row("deletion", "run_worker", RELEASED, RELEASED, by_step=True),
]
FIRST = "dagster/test_counted.py::test_what_a_run_held_counts_as_a_failed_delivery_unless_people_ended_it"
SHORT = {("kill", "step_worker", 0), ("timeout", "run_worker", 0), ("kill", "run_worker", 1)}


@pytest.fixture
def queues(redis_url: str, queue: LeasedQueue) -> Iterator[dict[str, LeasedQueue]]:
    opened = {after: LeasedQueue(redis_url, f"{queue.name}/{after}", CONFIG) for after in AFTERWARDS}
    for each in opened.values():
        each.publish("a")
    yield opened
    for each in opened.values():
        each.close()


@pytest.fixture
def execute(
    queue: LeasedQueue, on_disk: dg.DagsterInstance, redis_url: str, tmp_path: Path
) -> Callable[[Row, int], str]:
    """Run a job until it ends; record the end of a killed run worker as Dagster's run monitoring does."""

    def executed(row: Row, retries: int) -> str:
        command = [sys.executable, "-m", "dagster", "job", "execute", "-m", "tests.dagster.counted", "-a", row.worker]
        tags = json.dumps({"dagster/max_retries": str(retries)})
        told = {"TEST_QUEUE": queue.name, "TEST_CAUSE": row.cause, "TEST_RMQ_URL": redis_url}
        env = {**os.environ, **told, "DAGSTER_HOME": on_disk.root_directory, "PYTHONPATH": str(ROOT)}
        with (tmp_path / "run.log").open("wb") as log:
            subprocess.run(
                [*command, "--tags", tags], env=env, cwd=ROOT, stdout=log, stderr=log, timeout=PATIENCE_S, check=False
            )
        for run in on_disk.get_runs():
            if not run.is_finished or row.cause == "timeout":
                on_disk.report_run_failed(run)
        return next((run.run_id for run in on_disk.get_runs()), "")

    return executed


def outcome(queue: LeasedQueue, run: str) -> str:
    """Return what became of the only message of a queue."""
    assert queue.backlog().fence, "nothing was claimed"
    if queue.admin.leases():
        return HELD
    (message,) = queue.admin.peek(9)
    assert len(message.history) == min(message.deliveries, 1), "one failure, whatever its number of tries"
    if not message.history:
        return RELEASED
    failure = message.history[-1]
    return failure.reason.replace(run, "{run}") or failure.kind


@pytest.fixture
def look_after(
    queues: dict[str, LeasedQueue],
    on_disk: dg.DagsterInstance,
    redis_queue: RedisQueueResource,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], None]:
    """Let the status sensors see the end of the run, and the doorbell of another queue tick."""
    monkeypatch.setattr(holders, "SETTLING_S", 0)

    def looked() -> None:
        on_failure, on_cancel, _ = redis_queue_status_sensors(queues["status"].name, config=CONFIG)
        resources = {"redis_queue": redis_queue}
        for run in on_disk.get_runs():
            given: dict[str, Any] = {"dagster_instance": on_disk, "dagster_run": run, "resources": resources}
            event = dg.DagsterEvent("PIPELINE_FAILURE", run.job_name)
            with dg.build_run_status_sensor_context(sensor_name="ended", dagster_event=event, **given) as context:
                (on_cancel if run.status is CANCELED else on_failure)(context)
        bell = build_redis_queue_sensor(queues["tick"].name, target="run_worker", name="bell", config=CONFIG)
        with dg.build_sensor_context(on_disk, resources=resources, sensor_name="bell") as tick:
            bell(tick)

    return looked


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "row" in metafunc.fixturenames:
        metafunc.parametrize(
            ("row", "retries", "on_disk"),
            [
                pytest.param(
                    row,
                    retries,
                    {"run_retries": {"enabled": True, "max_retries": 0}},
                    id=f"{row.cause} of {row.worker}, {retries} retries",
                    marks=() if (*row[:2], retries) in SHORT else pytest.mark.nightly(FIRST),
                )
                for row in TABLE
                for retries in (0, 1)
            ],
            indirect=["on_disk"],
        )


def test_what_a_run_held_counts_as_a_failed_delivery_unless_people_ended_it(
    row: Row,
    retries: int,
    queues: dict[str, LeasedQueue],
    on_disk: dg.DagsterInstance,
    execute: Callable[[Row, int], str],
    look_after: Callable[[], None],
) -> None:
    run_id = execute(row, retries)
    expected = row.with_retry if retries else row.without_retry
    if row.by_step:
        assert {after: outcome(each, run_id) for after, each in queues.items()} == dict.fromkeys(AFTERWARDS, expected)
        said = " ".join(entry.user_message for entry in on_disk.all_logs(run_id)) if run_id else ""
        assert (KEPT if expected == HELD else row.says) in said
    look_after()
    assert [outcome(queues[after], run_id) for after in ("status", "tick")] == [expected, expected]
    if not row.by_step:  # whatever Dagster knows: the lease ends, unless a retry comes before
        for each in [queues["expiry"], *([] if expected != HELD else [queues["status"], queues["tick"]])]:
            eventually(lambda each=each: each.backlog().ready)
            assert outcome(each, run_id) == "expired"
