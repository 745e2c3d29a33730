"""Airflow on LocalExecutor, PostgreSQL and Redis, as a `Pipeline`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tests.faults.airflow.deployment import Deployment
from tests.faults.situations.work import DAYS
from tests.servers import Server
from tests.servers.postgres import running_postgres
from tests.servers.process import until

PATIENCE_S = 600
OPEN = ("queued", "running")


class AirflowPipeline:
    """See `Pipeline`."""

    name = "Airflow"

    def __init__(self, airflow: Deployment, redis: Server) -> None:
        self.airflow, self.redis, self.ledgers = airflow, redis, airflow.ledgers

    def begin(self) -> None:
        """Do nothing: each situation has a separate DAG, and `runs` counts the runs of that DAG."""

    def kill_worker(self, pid: int) -> None:
        with suppress(psutil.NoSuchProcess):  # it may have ended just now
            task = psutil.Process(pid)
            supervisor = task.parent()
            if supervisor and supervisor.name().startswith("airflow worker"):
                supervisor.kill()
            task.kill()

    def restart_scheduler(self) -> None:
        self.airflow.kill("scheduler")
        self.airflow.start("scheduler")

    def terminate(self, queue: str) -> None:
        running = next(run for run, state in self.airflow.rest.runs(queue).items() if state == "running")
        pids = [task.pid for task in self.airflow.rest.tasks(queue, running).values() if task.pid]
        self.airflow.rest.mark_run(queue, running, "failed")
        until(lambda: not any(map(psutil.pid_exists, pids)), PATIENCE_S, pace_s=0.2)

    def backfill(self) -> None:
        self.airflow.rest.backfill(DAYS, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 5, tzinfo=UTC))

    def crash(self) -> None:
        self.airflow.crash()

    def restart(self) -> None:
        self.airflow.restart()

    def open_runs(self, queue: str) -> int:
        return sum(state in OPEN for state in self._runs(queue))

    def runs(self, queue: str) -> int:
        return len(self._runs(queue))

    def write_off(self) -> None:
        """Airflow ends such runs by itself: their tasks have lost their heartbeats."""

    def _runs(self, queue: str) -> list[str]:
        dags = (queue, DAYS) if queue == "backfill" else (queue,)
        return [state for dag in dags for state in self.airflow.rest.runs(dag).values()]


@contextmanager
def airflow_pipeline(redis: Server, folder: Path) -> Iterator[AirflowPipeline]:
    """Yield a running Airflow."""
    del folder
    queues = {"conn_type": "redis_queue", "host": "127.0.0.1", "port": redis.port}
    connections = {
        "AIRFLOW_CONN_REDIS_QUEUE_DEFAULT": json.dumps(queues),
        "AIRFLOW__RMQ__CONNECTIONS": "redis_queue_default",
    }
    with running_postgres() as database:
        airflow = Deployment(database, connections, dags=Path(__file__).parent / "dags")
        try:
            yield AirflowPipeline(airflow, redis)
        finally:
            airflow.stop()
