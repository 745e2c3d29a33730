"""`Parts`: Dagster as it is deployed: a code server for each code location, a daemon and a webserver, each a process.

A supervisor restarts one part without the others, which `dagster dev` cannot.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import httpx
import yaml

from tests.faults.dagster.deployment import END_S, ROOT, START_S, STATE, Deployment, kill
from tests.servers.postgres import Postgres
from tests.servers.process import DIES_WITH_US, free_port, until

AT_ONCE = {"dequeue_use_threads": True, "dequeue_num_workers": 4}
"""By default the daemon launches one run after the other, and each waits until the process of the one before is up."""
CODE, DAEMON, WEBSERVER = "code server of ", "daemon", "webserver"


class Parts(Deployment):
    """`locations` are the names of code locations that all serve `module`."""

    def __init__(
        self,
        folder: Path,
        postgres: Postgres,
        module: str,
        environment: Mapping[str, str],
        locations: Sequence[str] = ("one",),
    ) -> None:
        super().__init__(folder, postgres, module, environment, run_queue=AT_ONCE)
        self._ports = ports = {location: free_port() for location in locations}
        servers = [
            {"grpc_server": {"host": "127.0.0.1", "port": port, "location_name": location}}
            for location, port in ports.items()
        ]
        workspace = self.home / "workspace.yaml"
        workspace.write_text(yaml.safe_dump({"load_from": servers}))
        code = {
            CODE + location: [
                "dagster",
                "api",
                "grpc",
                "-m",
                module,
                "-d",
                str(ROOT),
                "-h",
                "127.0.0.1",
                "-p",
                str(port),
            ]
            for location, port in ports.items()
        }
        url = ["-h", "127.0.0.1", "-p", self.url.rpartition(":")[2]]
        self._commands = {
            **code,
            DAEMON: ["dagster._daemon", "run", "-w", str(workspace)],
            WEBSERVER: ["dagster_webserver", "-w", str(workspace), *url],
        }
        self._parts: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start every part; returns when the code is loaded."""
        for name in self._commands:
            if name == DAEMON:  # code servers come first: those that are not there yet count as failed
                until(lambda: all(map(_listens, self._ports.values())), START_S, pace_s=0.5)
            self.start_part(name)
        until(self._loaded, START_S, pace_s=1)

    def start_part(self, name: str) -> None:
        """Start a part, or start it again."""
        command = [*DIES_WITH_US, sys.executable, "-m", *self._commands[name]]
        with (self.home / "log").open("ab") as log:
            self._parts[name] = subprocess.Popen(
                command, env=self.environment, cwd=self.home, stdout=log, stderr=log, start_new_session=True
            )

    def restart_part(self, name: str) -> None:
        """Send SIGKILL to a part, and start it again at once."""
        self._parts[name].kill()
        self._parts[name].wait()
        self.start_part(name)

    def crash(self) -> None:
        """Send SIGKILL to every part and to all runs, as when all machines fail."""
        for process in self.processes():
            kill(process.pid)
        for part in self._parts.values():
            part.wait(END_S)

    def stop(self) -> None:
        self.crash()

    def _loaded(self) -> bool:
        """Return whether the webserver has the definitions of every code location."""
        for name, part in self._parts.items():
            assert part.poll() is None, f"{name}:\n{self.log()}"
        with suppress(httpx.HTTPError):
            return len(self.ask(STATE)["repositoriesOrError"].get("nodes", ())) == len(self._ports)
        return False


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
