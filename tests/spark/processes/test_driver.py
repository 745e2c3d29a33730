from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rmq_core import Lease, LeasedQueue
from rmq_core.orchestrate import Handover
from rmq_spark import BatchPolicy, adopted_batch
from rmq_spark.batch.watch import EXIT_CODE
from tests.spark.conftest import StartDriver, is_alive, wait_for

START_S = 300


@pytest.fixture
def lease(queue: LeasedQueue) -> Lease:
    """Ten messages in a lease of a submitter."""
    queue.publish_many([{"n": number} for number in range(10)])
    claimed = queue.claim(max_messages=10, lease_id="run", owner="try-1")
    assert claimed is not None
    return claimed


@pytest.fixture
def environment(lease: Lease, handover: Any, tmp_path: Path) -> dict[str, str]:
    """Return the environment of the driver."""
    return {**handover(lease.id), "MARKER": str(tmp_path / "marker")}


def working(environment: dict[str, str]) -> dict[str, Any]:
    """Return what the driver wrote once it held its messages."""
    marker = Path(environment["MARKER"])
    wait_for(marker.exists, START_S)
    said: dict[str, Any] = json.loads(marker.read_text())
    return said


@pytest.mark.nightly("faults/test_spark_batch.py::test_the_next_driver_takes_over_the_batch_of_a_killed_driver")
def test_a_retry_gets_the_messages_of_a_killed_driver(
    spark: SparkSession, queue: LeasedQueue, handover: Any, start_driver: StartDriver, environment: dict[str, str]
) -> None:
    submit = start_driver(environment)
    killed = working(environment)
    os.kill(killed["pid"], signal.SIGKILL)
    assert submit.wait(30) != 0
    assert not is_alive(killed["java"])

    queue.claim(max_messages=99, lease_id="run", owner="try-2")
    given = Handover.from_environment(handover("run", owner="try-2"))
    with adopted_batch(spark, given, policy=BatchPolicy(on_failure="keep")) as batch:
        rows = batch.df.collect()
    assert sorted(row.message_id for row in rows) == sorted(killed["ids"])
    assert {row.deliveries for row in rows} == {2}
    assert queue.settled("run") is not None
    assert queue.stats().leased == 0


@pytest.mark.nightly("spark/test_claimed_batch.py::test_a_takeover_cancels_the_running_job")
def test_a_driver_ends_soon_after_losing_its_lease(
    queue: LeasedQueue, start_driver: StartDriver, environment: dict[str, str]
) -> None:
    submit = start_driver(environment)
    driver = working(environment)
    queue.claim(lease_id="run", owner="try-2")
    wait_for(lambda: not is_alive(driver["pid"]), 60)
    assert submit.wait(60) in (1, EXIT_CODE)
    info = queue.lease_info("run")
    assert info is not None
    assert (info.owner, info.count) == ("try-2", 10)


def test_a_driver_ends_soon_after_its_submitter_and_shows_no_secret_to_ps(
    queue: LeasedQueue, start_driver: StartDriver, environment: dict[str, str], lease: Lease
) -> None:
    # A submitter that waits for its child, and is killed without a chance to stop it.
    waits = "import subprocess, sys; subprocess.run(sys.argv[1:])"
    submitter = start_driver(environment, sys.executable, "-c", waits)
    driver = working(environment)
    show_no_secret(driver, environment, lease)
    submitter.kill()
    wait_for(lambda: not is_alive(driver["pid"]), 60)
    wait_for(lambda: not is_alive(driver["java"]), 60)
    info = queue.lease_info("run")
    assert info is not None
    assert info.owner == "try-1"


def show_no_secret(driver: dict[str, Any], environment: dict[str, str], lease: Lease) -> None:
    for pid in (driver["pid"], driver["java"]):
        line = subprocess.run(["ps", "-o", "args=", "-ww", "-p", str(pid)], capture_output=True, check=True).stdout
        assert b"driver.py" in line
        for secret in (environment["RMQ_URL"], str(lease.token)):
            assert secret.encode() not in line
