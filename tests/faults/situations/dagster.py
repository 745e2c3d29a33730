"""Dagster with its code server, daemon and webserver on PostgreSQL, and Redis, as a `Pipeline`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from tests.faults.airflow.ledger import FOLDER
from tests.faults.dagster.deployment import kill, running
from tests.faults.dagster.parts import DAEMON, Parts
from tests.faults.dagster.ways import URL
from tests.faults.situations.work import DAYS
from tests.servers import Server
from tests.servers.postgres import running_postgres
from tests.servers.process import until

PATIENCE_S = 600
BACKFILL = f"""mutation ($days: [String!]) {{
  launchPartitionBackfill(backfillParams: {{assetSelection: [{{path: ["{DAYS}"]}}], partitionNames: $days}}) {{
    __typename ... on PythonError {{ message }}
  }}
}}"""
DEFINITIONS = "tests.faults.situations.definitions"


class DagsterPipeline:
    """See `Pipeline`. One situation is played after the other, so all runs since `begin` are those of its queue."""

    name = "Dagster"

    def __init__(self, dagster: Parts, redis: Server, ledgers: Path) -> None:
        self.dagster, self.redis, self.ledgers = dagster, redis, ledgers
        self.began = datetime.now(UTC)

    def begin(self) -> None:
        self.began = datetime.now(UTC)

    def kill_worker(self, pid: int) -> None:
        kill(pid)

    def restart_scheduler(self) -> None:
        self.dagster.restart_part(DAEMON)

    def terminate(self, queue: str) -> None:
        del queue
        run = next(run for run in self._runs() if run.status is dg.DagsterRunStatus.STARTED)
        self.dagster.cancel(run.run_id)
        until(lambda: self._status(run.run_id) is dg.DagsterRunStatus.CANCELED, PATIENCE_S, pace_s=0.2)

    def backfill(self) -> None:
        self.dagster.ask(BACKFILL, days=[f"2026-01-0{day}" for day in range(1, 6)])

    def crash(self) -> None:
        self.dagster.crash()

    def restart(self) -> None:
        self.dagster.start()

    def open_runs(self, queue: str) -> int:
        del queue
        return sum(not run.is_finished for run in self._runs())

    def runs(self, queue: str) -> int:
        del queue
        return len(self._runs())

    def write_off(self) -> None:
        for run in self._runs():
            if not run.is_finished:
                self.dagster.write_off(run.run_id)

    def _runs(self) -> list[dg.DagsterRun]:
        return list(self.dagster.instance.get_runs(dg.RunsFilter(created_after=self.began)))

    def _status(self, run_id: str) -> dg.DagsterRunStatus | None:
        run = self.dagster.instance.get_run_by_id(run_id)
        return run.status if run else None


@contextmanager
def dagster_pipeline(redis: Server, folder: Path) -> Iterator[DagsterPipeline]:
    """Yield a running Dagster."""
    ledgers = folder / "ledgers"
    with (
        running_postgres() as database,
        running(Parts(folder, database, DEFINITIONS, {URL: redis.url, FOLDER: str(ledgers)})) as dagster,
    ):
        yield DagsterPipeline(dagster, redis, ledgers)
