"""Airflow as it is deployed: its parts, each a process in its own session, on PostgreSQL.

Processes that a part starts stay in its session, even when the part is killed before them; `stop` ends all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx
import psutil

from tests.faults.airflow.hosts import INSTANCE
from tests.faults.airflow.ledger import FOLDER
from tests.faults.airflow.rest import Rest
from tests.servers.postgres import Postgres
from tests.servers.process import DIES_WITH_US, free_port, until

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
START_S = 400
PARTS: Mapping[str, Sequence[str]] = {
    "api-server": (),
    "scheduler": ("--skip-serve-logs",),
    "dag-processor": (),
    "triggerer": ("--skip-serve-logs",),
    "celery": (
        *("worker", "--skip-serve-logs", "--without-mingle", "--without-gossip", "--concurrency", "8"),
        *("--celery-hostname", "{name}", "--pid", "{home}/{name}.pid"),
    ),
}
"""The commands of Airflow, and their arguments, in which the name of the instance is filled in."""
SINGLE = {part: part for part in PARTS if part != "celery"}


class Deployment:
    """A running Airflow with the DAGs of a folder; `instances` names each part to start, and its command.

    `rest` is a client of its REST API, `ledgers` the folder in which its tasks log their work.
    """

    def __init__(
        self,
        database: Postgres,
        extra: Mapping[str, str],
        dags: Path = HERE / "dags",
        instances: Mapping[str, str] = SINGLE,
    ) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="rmq-airflow-faults-"))
        self.ledgers = self.home / "ledgers"
        self._files = {path.name for path in dags.glob("*.py")}
        port = free_port()
        self.environment = {**_environment(self, port, database, dags), **extra}
        self._sessions: list[int] = []
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        self._migrate()
        for name, part in instances.items():
            self.start(part, name)
        self.rest = Rest(f"http://127.0.0.1:{port}")
        until(self._ready, START_S, pace_s=1)

    def start(self, part: str, name: str = "", **environment: str) -> None:
        """Start a part, or start it again; under a `name`, start another instance of it."""
        name = name or part
        arguments = [one.format(name=name, home=self.home) for one in PARTS[part]]
        command = [*DIES_WITH_US, sys.executable, "-m", "airflow", part, *arguments]
        own = self.environment | {INSTANCE: name} | environment
        with self.log(name).open("ab") as log:
            self.parts[name] = subprocess.Popen(
                command, env=own, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )
        self._sessions.append(self.parts[name].pid)

    def log(self, name: str) -> Path:
        """Return what a part has logged."""
        return self.home / f"{name}.log"

    def kill(self, part: str, *, whole_session: bool = False) -> None:
        """Send SIGKILL to a part, or to its whole session, as when its machine fails."""
        if whole_session:
            for process in _of_session(self.parts[part].pid):
                process.kill()
        self.parts[part].kill()
        self.parts[part].wait()

    def end(self, part: str) -> None:
        """Send SIGTERM to a part, which ends in its own time."""
        self.parts[part].terminate()
        self.parts[part].wait(START_S)

    def crash(self) -> None:
        """Send SIGKILL to every part and every process that they started, as when all machines fail."""
        for session in self._sessions:
            for process in _of_session(session):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        for part in self.parts.values():
            part.wait()

    def restart(self) -> None:
        """Start every part again; returns when they are healthy."""
        for name in list(self.parts):
            self.start(name)
        until(self._ready, START_S, pace_s=1)

    def stop(self) -> None:
        """Stop everything that was started here, and remove the home."""
        self.rest.close()
        self.crash()
        for driver in drivers_of(self.ledgers):
            driver.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def _migrate(self) -> None:
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        result = subprocess.run(command, check=False, env=self.environment, cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr

    def _ready(self) -> bool:
        for name, part in self.parts.items():
            assert part.poll() is None, self.log(name).read_text()[-4000:]
        with contextlib.suppress(httpx.HTTPError):
            return self.rest.ready(self._files)
        return False


def drivers_of(ledgers: Path, queue: str = "") -> list[psutil.Process]:
    """Return every living process of a Spark driver that was started for a queue, including Spark's own helpers."""
    return [process for process in psutil.process_iter() if _is_driver(process, str(ledgers), queue)]


def _is_driver(process: psutil.Process, ledgers: str, queue: str) -> bool:
    try:
        environment = process.environ()  # a zombie process has none
    except psutil.Error:
        return False
    handed = environment.get("RMQ_HANDOVER")
    ours = handed is not None and environment.get(FOLDER) == ledgers
    return ours and str(json.loads(str(handed))["queue"]).startswith(queue)


def _of_session(session: int) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(process.pid) == session:
                yield process


def _environment(deployment: Deployment, port: int, database: Postgres, dags: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    url = f"http://127.0.0.1:{port}"
    bundle = {
        "name": "tests",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(dags), "refresh_interval": 600},
    }
    options = {
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "16",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_FOLDER": str(dags),
        "CORE__DAGBAG_IMPORT_TIMEOUT": "180",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "CORE__TEST_CONNECTION": "Enabled",
        "CONNECTION_TEST__TIMEOUT": "600",
        "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
        "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "180",
        "DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://rmq@127.0.0.1:{database.port}/postgres",
        # What these tests ask for needs no asyncio driver, which is one more package.
        "DATABASE__SQL_ALCHEMY_CONN_ASYNC": "",
        "API__HOST": "127.0.0.1",
        "API__PORT": str(port),
        "API__BASE_URL": url,
        "API__WORKERS": "1",
        "API_AUTH__JWT_SECRET": "a secret of the tests that is as long as Airflow wants it " * 2,
        # A dead task is found 20 to 25 s after its last heartbeat, a dead scheduler or triggerer after 15.
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
        "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
        "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
        "WORKERS__MIN_HEARTBEAT_INTERVAL": "2",
        # Airflow asks again after five seconds, which a test of a connection does not survive: it is handed out once.
        "WORKERS__EXECUTION_API_TIMEOUT": "300",
    }
    named = {f"AIRFLOW__{name}": value for name, value in options.items()}
    mine = {"AIRFLOW_HOME": str(deployment.home), FOLDER: str(deployment.ledgers)}
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    return {**ours, **named, **mine, "PYTHONPATH": path}
