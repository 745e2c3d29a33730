"""One local Spark for these tests, with an event log, and drivers as processes of their own."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, datasource

from rmq_core import LeasedQueue
from rmq_spark.versions import HAS_LIMITS

QUEUE = "work"
collect_ignore = [] if HAS_LIMITS else ["test_stream_spark_4_2.py", "processes/test_pipelines.py"]
if not hasattr(datasource, "EqualTo"):
    collect_ignore.append("test_unit_filters.py")  # Spark has no filters before 4.1
DRIVER = Path(__file__).parent / "driver.py"
# Java that lives for seconds: starting soon matters more than running fast.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SUBMIT = [sys.executable, "-m", "rmq_spark.submit", "--master", "local[2]", "--driver-java-options", SHORT_LIVED]


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder to which Spark writes its event log."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(event_log: Path) -> Iterator[SparkSession]:
    """A session of two cores in which a task may fail twice."""
    import rmq_spark

    # py4j logs its end at INFO when the interpreter exits, after pytest has closed the streams it would write to.
    logging.getLogger("py4j.clientserver").setLevel(logging.WARNING)
    log = {"enabled": True, "dir": event_log.as_uri(), "compress": False}
    before = dict(os.environ)
    session = rmq_spark.session(
        "tests",
        **{"spark.master": "local[2,3]", "spark.driver.extraJavaOptions": SHORT_LIVED},
        **{
            "spark.python.daemon.module": "tests.spark.warm_daemon",
            "spark.ui.port": 0,
            "spark.sql.shuffle.partitions": 2,
        },
        **{f"spark.eventLog.{key}": value for key, value in log.items()},
    )
    session.sparkContext.setLogLevel("FATAL")
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def queue(redis_url: str) -> Iterator[LeasedQueue]:
    """The queue `work`, opened by the test itself."""
    with LeasedQueue(redis_url, QUEUE) as opened:
        yield opened
    if (session := SparkSession.getActiveSession()) is not None:
        wait_for_tasks(session)


def wait_for_tasks(session: SparkSession) -> None:
    """Return when no task runs: those of a job that failed go on, and could publish to the queue of the next test."""
    tracker, deadline = session.sparkContext._jsc.sc().statusTracker(), time.monotonic() + 60  # type: ignore[union-attr]
    while any(each.numRunningTasks() for each in tracker.getExecutorInfos()):
        assert time.monotonic() < deadline, "a task does not end"
        time.sleep(0.01)


@pytest.fixture
def handover(redis_url: str) -> Callable[..., dict[str, str]]:
    """Return what a submitter puts into the environment of its driver."""

    def environment(lease_id: str, owner: str = "try-1", queue: str = QUEUE) -> dict[str, str]:
        names = {"queue": queue, "lease_id": lease_id, "owner": owner}
        return {"RMQ_HANDOVER": json.dumps(names), "RMQ_URL": redis_url}

    return environment


StartDriver = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start_driver(tmp_path: Path) -> Iterator[StartDriver]:
    """Start `driver.py` under spark-submit in its own session; all its processes are killed after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(environment: dict[str, str], *prefix: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "driver.log").open("ab") as log:
            process = subprocess.Popen(
                [*prefix, *SUBMIT, str(DRIVER)],
                env=os.environ | environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
        process.wait()


def wait_for(condition: Callable[[], Any], seconds: float) -> float:
    """Return the seconds until a condition is true; fail when it takes longer than `seconds`."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"still not true after {seconds} s"
        time.sleep(0.05)
    return time.monotonic() - started


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
