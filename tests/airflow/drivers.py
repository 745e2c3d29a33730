"""Drivers that tests of the spark-submit operator start, and the ways in which they and their tasks end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import structlog
from airflow.sdk.execution_time.timeout import timeout

from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from tests.faults.patience import PATIENCE_S, eventually

DRIVER = Path(__file__).parent / "jobs" / "driver.py"
LEASE_ID = "dag/run/spark/-1"
OWNER = "airflow:dag/run/spark/-1/{}"
UNTOLD = {"isolated": 0, "settled_before": False}


def gone(marker: Path) -> bool:
    try:
        return psutil.Process(int(marker.read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Background:
    """A thread that runs `execute`, as the main thread of a task would."""

    def __init__(self, task: RedisQueueSparkSubmitOperator, context: Any) -> None:
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(task, context))
        self._thread.start()

    def _run(self, task: RedisQueueSparkSubmitOperator, context: Any) -> None:
        try:
            task.execute(context)
        except BaseException as error:  # a timeout is a BaseException
            self.error = error

    def ended_with(self) -> BaseException | None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.error


@contextmanager
def execution_timeout(due: Callable[[], object]) -> Iterator[None]:
    """Raise AirflowTaskTimeout in the block once `due()` is true, as Airflow does after a task's `execution_timeout`.

    Unlike Airflow's, this signal handler does not log. The lock of structlog's loggers is not reentrant, so a handler
    that logs deadlocks if the signal interrupts a log call of the main thread.
    """

    def ring() -> None:
        eventually(due)
        os.kill(os.getpid(), signal.SIGALRM)

    limit = timeout(2 * PATIENCE_S)
    limit.log = structlog.ReturnLogger()
    alarm = threading.Thread(target=ring)
    alarm.start()
    try:
        with limit:
            yield
    finally:
        alarm.join()
