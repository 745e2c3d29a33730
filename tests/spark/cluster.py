"""Spark beyond one process: a standalone cluster and a Spark Connect server, on free ports, dead when the tests are.

Their Python has the dependencies of RMQ but neither RMQ nor anything else of this project: what runs there was shipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from rmq_spark import spark_environment
from tests.servers.process import DIES_WITH_US, free_port, until
from tests.spark.conftest import SHORT_LIVED

START_S = 240
HERE = "127.0.0.1"
DEPLOY = "org.apache.spark.deploy"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
LEAN = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": SHORT_LIVED, "spark.ui.enabled": False}


class Daemons:
    """Processes of Spark that log to a folder."""

    def __init__(self, folder: Path, python: str | None = None) -> None:
        self.folder = folder
        self.python = python or bare_python(folder)
        self.processes: list[subprocess.Popen[bytes]] = []

    def driver(self, **variables: str) -> dict[str, str]:
        """The environment of a driver: ours, but with the executors' Python."""
        lean = {"SPARK_LOCAL_IP": HERE, "SPARK_DAEMON_MEMORY": "512m", "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED}
        python = {"PYSPARK_PYTHON": str(self.python), "PYSPARK_DRIVER_PYTHON": sys.executable}
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        return kept | spark_environment() | lean | python | variables

    def start(self, name: str, *command: str) -> None:
        """Start a process by its class and arguments."""
        bare = {key: value for key, value in self.driver().items() if key != "PYTHONPATH"}
        launch = [*DIES_WITH_US, str(Path(_find_spark_home(), "bin", "spark-class")), *command]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(launch, stdout=log, stderr=log, env=bare, cwd=self.folder))

    def wait_for(self, name: str, words: str) -> None:
        """Return when its log contains these words."""
        log, process = self.folder / f"{name}.log", self.processes[-1]

        def told() -> bool:
            assert process.poll() is None, log.read_text()[-3000:]
            return words in log.read_text()

        until(told, START_S)

    def stop(self) -> None:
        """Stop all of them."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(START_S)


@contextmanager
def standalone_cluster(
    folder: Path, hosts: Sequence[str] = (HERE, HERE)
) -> Iterator[tuple[Daemons, dict[str, object]]]:
    """Start a master and a worker with one core on each host; yield them and the configuration of a driver."""
    port, daemons = free_port(), Daemons(folder)
    try:
        daemons.start("master", f"{DEPLOY}.master.Master", "--host", HERE, "--port", str(port), "--webui-port", "0")
        daemons.wait_for("master", "I have been elected leader")
        for name, host in zip(("one", "two"), hosts, strict=True):
            place = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", name]
            daemons.start(name, f"{DEPLOY}.worker.Worker", *place, f"spark://{HERE}:{port}")
            daemons.wait_for(name, "Successfully registered with master")
        yield daemons, LEAN | {"spark.master": f"spark://{HERE}:{port}", "spark.driver.extraJavaOptions": SHORT_LIVED}
    finally:
        daemons.stop()


@contextmanager
def connect_server(folder: Path, master: str = "local[2]", python: str | None = None) -> Iterator[tuple[Daemons, str]]:
    """Start a Spark Connect server; yield it and its URL. python: runs on executors, instead of a bare one."""
    port, daemons = free_port(), Daemons(folder, python)
    conf = {"spark.ui.enabled": "false", "spark.connect.grpc.binding.port": port}
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    java = ["--driver-java-options", SHORT_LIVED, "--master", master]
    try:
        daemons.start("connect", f"{DEPLOY}.SparkSubmit", "--class", CONNECT, *java, *options, "spark-internal")
        daemons.wait_for("connect", "Spark Connect server started")
        yield daemons, f"sc://{HERE}:{port}"
    finally:
        daemons.stop()


def bare_python(folder: Path) -> Path:
    """Create an interpreter with the packages of this one, but without editable installations of source trees."""
    path = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    script = folder / "python"
    # Without the module `site`, which follows the references.
    script.write_text(f'#!/bin/sh\nPYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{path}" exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    tried = [script, "-c", "import redis, pyarrow, rmq_core"]
    asked = subprocess.run(tried, cwd=folder, env={"PATH": os.defpath}, capture_output=True, text=True, check=False)
    assert "No module named 'rmq_core'" in asked.stderr, asked.stderr
    return script
