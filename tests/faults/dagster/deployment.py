"""`Deployment`: `dagster dev` with its webserver, daemon and code server, and the processes one can do harm to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import dagster as dg
import httpx
import psutil
import yaml

from tests.faults.dagster.board import FOLDER, Board
from tests.servers.postgres import Postgres
from tests.servers.process import DIES_WITH_US, free_port, until

D = TypeVar("D", bound="Deployment")
ROOT = Path(__file__).parents[3]
START_S, END_S = 300, 60
TICK_TIMEOUT = "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS"
SLOTS = 6
LANE = "lane"  # a tag: runs with the same value of it run one after the other
ONE_BY_ONE = {"key": LANE, "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
DAEMON, CODE_SERVER, RUN_WORKER = "dagster._daemon", "-m dagster api grpc", "multiprocessing.spawn"
NO_LOGS = "dagster._core.storage.noop_compute_log_manager"
STATE = "query { repositoriesOrError { ... on RepositoryConnection { nodes { name sensors { name } } } } }"
TERMINATE = """mutation ($run: String!, $policy: TerminateRunPolicy) {
  terminateRun(runId: $run, terminatePolicy: $policy) { __typename ... on PythonError { message } }
}"""
DELETE = """mutation ($run: String!) {
  deleteRun(runId: $run) { __typename ... on PythonError { message } }
}"""
RELOAD = """mutation ($location: String!) {
  reloadRepositoryLocation(repositoryLocationName: $location) { __typename ... on PythonError { message } }
}"""


class Deployment:
    """A running `dagster dev`; `environment` configures its definitions, and `settings` go into dagster.yaml."""

    def __init__(
        self,
        folder: Path,
        postgres: Postgres,
        module: str,
        environment: Mapping[str, str],
        slots: int = SLOTS,
        **settings: Any,
    ) -> None:
        self.home, self.board, self.module = folder / "home", Board(folder), module
        self.url = f"http://127.0.0.1:{free_port()}"
        self.home.mkdir(exist_ok=True)
        (self.home / "dagster.yaml").write_text(yaml.safe_dump({**_settings(postgres, slots), **settings}))
        self.environment = {
            **os.environ,
            TICK_TIMEOUT: "300",
            **environment,
            FOLDER: str(folder),
            "DAGSTER_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
        }
        self.instance = dg.DagsterInstance.from_config(str(self.home))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start everything; returns when the code is loaded."""
        command = [*DIES_WITH_US, sys.executable, "-m", "dagster", "dev", "-m", self.module, "-d", str(ROOT)]
        where = ["-h", "127.0.0.1", "-p", self.url.rpartition(":")[2]]
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *where], env=self.environment, cwd=self.home, stdout=log, stderr=log, start_new_session=True
            )
        until(self._loaded, START_S)

    def await_end(self) -> None:
        """`dagster dev` ends by itself when one of its parts has died."""
        assert self.process is not None
        self.process.wait(END_S + START_S)
        self.process = None

    def stop(self) -> None:
        """Stop everything that was started here, including its drivers."""
        if self.process is not None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(END_S)
        for process in self.processes():
            kill(process.pid)
        if self.process is not None:
            self.process.wait(END_S)
            self.process = None

    def log(self) -> str:
        """Return the last lines of its output."""
        return (self.home / "log").read_text()[-6000:]

    def processes(self, part: str = "") -> list[psutil.Process]:
        """Return its living processes whose command line contains `part`."""
        return [process for process in psutil.process_iter() if self.owns(process) and part in _command(process)]

    def kill(self, part: str) -> None:
        """Send SIGKILL to the processes with `part` in their command line."""
        found = self.processes(part)
        assert found, f"no process {part!r}:\n{self.log()}"
        for process in found:
            kill(process.pid)

    def cancel(self, run_id: str) -> None:
        """Do what the button "Terminate" does."""
        self.ask(TERMINATE, run=run_id, policy="SAFE_TERMINATE")

    def write_off(self, run_id: str) -> None:
        """Do what the button does with "force": mark the run as canceled."""
        self.ask(TERMINATE, run=run_id, policy="MARK_AS_CANCELED_IMMEDIATELY")

    def delete(self, run_id: str) -> None:
        """Do what "Delete" does in the menu of a run."""
        self.ask(DELETE, run=run_id)

    def reload(self) -> None:
        """Do what the button "Reload definitions" does."""
        self.ask(RELOAD, location=self.module)

    def ask(self, query: str, **variables: Any) -> Any:
        """Return the answer of the webserver to a query."""
        answer = httpx.post(f"{self.url}/graphql", json={"query": query, "variables": variables}, timeout=120)
        told = answer.raise_for_status().json()
        assert "errors" not in told, told
        return told["data"]

    def _loaded(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        with suppress(httpx.HTTPError):
            return bool(self.ask(STATE)["repositoriesOrError"].get("nodes"))
        return False

    def owns(self, process: psutil.Process) -> bool:
        """Return whether the process lives and was started by this deployment."""
        try:
            return process.environ().get("DAGSTER_HOME") == str(self.home) and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            return False


@contextmanager
def running(deployment: D) -> Iterator[D]:
    """Run a deployment for the duration of the block."""
    try:
        deployment.start()
        yield deployment
    finally:
        deployment.stop()
        deployment.instance.dispose()


def deployed(
    folder: Path, postgres: Postgres, module: str, environment: Mapping[str, str], slots: int = SLOTS
) -> AbstractContextManager[Deployment]:
    """Run `dagster dev` for the duration of the block."""
    return running(Deployment(folder, postgres, module, environment, slots))


def kill(pid: int) -> None:
    """Send SIGKILL; do nothing when the process has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _command(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _settings(postgres: Postgres, slots: int) -> dict[str, Any]:
    """Return dagster.yaml: sensors tick concurrently, and a run is retried when its job is configured so."""
    url = f"postgresql+psycopg2://rmq@127.0.0.1:{postgres.port}/postgres"
    return {
        "storage": {"postgres": {"postgres_url": url}},
        "telemetry": {"enabled": False},
        "compute_logs": {"module": NO_LOGS, "class": "NoOpComputeLogManager"},  # else three processes a run
        "run_retries": {"enabled": True, "max_retries": 0},
        "run_monitoring": {"enabled": True, "poll_interval_seconds": 5},
        "sensors": {"use_threads": True, "num_workers": 8},
        "concurrency": {"runs": {"max_concurrent_runs": slots, "tag_concurrency_limits": [ONE_BY_ONE]}},
    }
