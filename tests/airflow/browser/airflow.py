"""An Airflow API server of its own: a fresh home and database, users of each role, one process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from tests.servers.process import DIES_WITH_US

ROLES = ("viewer", "user", "op", "admin")
START_S = 400
ROOT = Path(__file__).parents[3]
PROGRAM = "from airflow.utils.db import initdb; initdb(); from airflow.__main__ import main; main()"
"""Like `airflow db migrate` and the command of the arguments, in one process because most of their time is imports."""


class ApiServer:
    """A running `airflow api-server`; `url` is its address, and `token(role)` logs in."""

    def __init__(self, connections: dict[str, dict[str, Any]]) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="rmq-airflow-ui-"))
        self.url = f"http://127.0.0.1:{_free_port()}"
        passwords = self.home / "passwords.json"
        passwords.write_text(json.dumps({role: role for role in ROLES}))
        self.environment = _environment(self.home, self.url)
        with (self.home / "log").open("ab") as log:
            command = [*DIES_WITH_US, sys.executable, "-c", PROGRAM, "api-server"]
            self.process = subprocess.Popen(
                command, env=self.environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )
        self._wait()
        with self.client() as client:
            for name, fields in connections.items():
                client.post("/connections", json={"connection_id": name, **fields}).raise_for_status()

    def client(self) -> httpx.Client:
        """Return a client of Airflow's API, with the rights of an administrator."""
        bearer = {"Authorization": f"Bearer {self.token('admin')}"}
        return httpx.Client(base_url=f"{self.url}/api/v2", headers=bearer, timeout=START_S)

    def token(self, role: str) -> str:
        """Return a token of the user of that role."""
        answer = httpx.post(f"{self.url}/auth/token", json={"username": role, "password": role}, timeout=START_S)
        return str(answer.raise_for_status().json()["access_token"])

    def stop(self) -> None:
        """Stop it with all of its workers, and remove its home."""
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while not _healthy(self.url):
            if self.process.poll() is not None or time.monotonic() > deadline:
                message = f"the API server did not start:\n{(self.home / 'log').read_text()[-4000:]}"
                raise RuntimeError(message)
            time.sleep(0.25)


def _healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/v2/version", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def _environment(home: Path, url: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return ours | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__TEST_CONNECTION": "Enabled",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{role}:{role}" for role in ROLES),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": url.rpartition(":")[2],
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of the tests that is as long as Airflow wants it " * 2,
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
