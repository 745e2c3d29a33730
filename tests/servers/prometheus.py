"""A Prometheus that belongs to the tests: Debian's package, unpacked into the cache, own folder, free port."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.debian import Package, command_of
from tests.servers.process import DIES_WITH_US, START_S, free_port, on_free_ports, until

PACKAGE = Package("prometheus", "prometheus", "prometheus", version="2.42", suite="bookworm")


def program(name: str) -> list[str]:
    """Return how to run `prometheus` or `promtool`; download the package first when it is not in the cache."""
    *loader, path = command_of("prometheus", PACKAGE)
    return [*loader, str(Path(path).with_name(name))]


def version() -> str:
    """Return the version of the package, such as `2.42.0`."""
    reply = subprocess.run([*program("promtool"), "--version"], check=True, capture_output=True, text=True).stdout
    return reply.split()[2].partition("+")[0]


class Prometheus:
    """A running server with the configuration `config`, YAML or JSON, which may name files by absolute paths."""

    def __init__(self, config: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="rmq-prometheus-"))
        (self.folder / "prometheus.yml").write_text(config)
        self.port = free_port()
        options = {
            "config.file": self.folder / "prometheus.yml",
            "storage.tsdb.path": self.folder / "data",
            "web.listen-address": f"127.0.0.1:{self.port}",
            "web.console.templates": self.folder,
            "web.console.libraries": self.folder,
        }
        command = [*program("prometheus"), *(f"--{name}={value}" for name, value in options.items())]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen([*DIES_WITH_US, *command], stdout=log, stderr=log)
        try:
            until(self._ready, START_S)
        except BaseException:
            self.stop()
            raise

    def get(self, path: str, **parameters: str) -> Any:
        """Return the `data` of a reply of the HTTP API; raise HTTPError with its text when it refuses."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=30) as reply:
            return json.load(reply)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of a PromQL expression at this moment."""
        samples: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return samples

    def stop(self) -> None:
        """Stop it and remove its folder."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ready(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"Prometheus did not start:\n{(self.folder / 'log').read_text()}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False


@contextmanager
def running_prometheus(config: str) -> Iterator[Prometheus]:
    """Yield a Prometheus for the duration of the block."""
    server = on_free_ports(lambda: Prometheus(config))
    try:
        yield server
    finally:
        server.stop()
