"""A resource manager and a Kubernetes API that report the drivers which `bin_cluster/spark-submit` has started."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Jobs:
    """The drivers of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.killed: list[str] = []
        self.answering = True

    @property
    def names(self) -> list[str]:
        """Return the submitted drivers, the oldest first."""
        return sorted(path.stem for path in self.folder.glob("*.pid"))

    def code(self, job: str) -> int | None:
        """Return the exit code of the driver; None while it runs."""
        path = self.folder / f"{job}.exit"
        return int(path.read_text()) if path.exists() else None

    def kill(self, job: str) -> None:
        """Kill a driver with all its processes."""
        self.killed.append(job)
        with suppress(ProcessLookupError):
            os.killpg(int((self.folder / f"{job}.pid").read_text()), signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill the drivers that a test left running."""
        for job in self.names:
            self.kill(job)


@contextmanager
def resource_manager(jobs: Jobs) -> Iterator[str]:
    """Serve YARN's `/ws/v1/cluster/apps/<id>` and `/state`; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            job = self.path.rpartition("/")[2]
            code = jobs.code(job)
            if not jobs.answering:
                self.send_error(503)
            elif job in jobs.killed:
                self._answer("KILLED", "KILLED")
            elif code is None:
                self._answer("RUNNING", "UNDEFINED")
            else:
                self._answer("FINISHED", "FAILED" if code else "SUCCEEDED")

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            jobs.kill(self.path.split("/")[-2])
            self._answer("KILLED", "KILLED")

        def _answer(self, state: str, final: str) -> None:
            body = json.dumps({"app": {"state": state, "finalStatus": final}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class ApiException(Exception):
    """The exception that the Kubernetes client raises."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Kubernetes:
    """A replacement for the provider's `kube_client` module: an API that finds pods by their driver."""

    ApiException = ApiException

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs
        self.deleted: list[str] = []

    def get_kube_client(self) -> Kubernetes:
        return self

    def read_namespaced_pod(self, name: str, namespace: str) -> Any:
        if namespace != "work" or name in self.deleted:
            raise ApiException(404)
        if not self.jobs.answering:
            raise ApiException(500)
        code = self.jobs.code(name)
        phase = "Running" if code is None else "Failed" if code else "Succeeded"
        return SimpleNamespace(status=SimpleNamespace(phase=phase, container_statuses=None))

    def delete_namespaced_pod(self, name: str, *_: Any, **__: Any) -> None:
        self.deleted.append(name)
        self.jobs.kill(name)
