"""The commands and probes of the service files: a unit of systemd, a container of compose, a pod of Kubernetes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.core.leases import PATIENCE_S
from tests.faults.patience import eventually

Rmq = Callable[..., Any]
ROOT = Path(__file__).parents[2]
TASKS = """
import time

def work(message):
    if message.payload == "bad":
        raise ValueError("no")
    while message.payload == "hang":
        time.sleep(0.01)
"""


def _unit() -> dict[str, str]:
    lines = (ROOT / "deploy/systemd/rmq-run@.service").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def _resource(file: str) -> dict[str, Any]:
    resource: dict[str, Any] = next(yaml.safe_load_all((ROOT / "deploy/kubernetes" / file).read_text("utf-8")))
    return resource


WORKER: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]["worker"]
(POD,) = _resource("worker.yaml")["spec"]["template"]["spec"]["containers"]
(NIGHTLY,) = _resource("nightly.yaml")["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
COMMANDS: dict[str, list[str]] = {
    "systemd": shlex.split(_unit()["ExecStart"].replace("%i", "flights"))[1:],
    "compose": ["mails" if each == "flights" else each for each in WORKER["command"]],
    "kubernetes": POD["args"],
}
PROBES: dict[str, str] = {
    "compose": WORKER["healthcheck"]["test"][1].replace("$$", "$"),
    "kubernetes": POD["livenessProbe"]["exec"]["command"][2],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "first_worker.py").write_text(TASKS)
    return tmp_path


@contextmanager
def running(folder: Path, arguments: list[str], **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "rmq_cli", *(each.replace("/tmp/", f"{folder}/") for each in arguments)]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, env={**os.environ, **variables}) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_worker_that_started_before_its_queue_works_and_stops_with_0(rmq: Rmq, folder: Path, name: str) -> None:
    queue = COMMANDS[name][COMMANDS[name].index("--queue") + 1]
    with running(folder, COMMANDS[name]) as process:
        rmq("publish", queue, "good", "bad")
        eventually(lambda: rmq("stats", queue, "--json").records[0]["delayed"] == 1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert rmq("stats", queue, "--json").records[0]["leased"] == 0


@pytest.mark.parametrize("name", PROBES)
def test_the_probe_sees_a_worker_that_hangs(rmq: Rmq, folder: Path, name: str) -> None:
    arguments = [each if each != "4" else "1" for each in COMMANDS[name]]
    queue, alive = arguments[arguments.index("--queue") + 1], folder / "alive"

    def grow_old() -> None:
        os.utime(alive, (time.time() - 3600,) * 2)

    def passes() -> bool:
        return not subprocess.run(["sh", "-c", PROBES[name].replace("/tmp/", f"{folder}/")], check=False).returncode

    with running(folder, arguments):
        eventually(alive.exists)
        grow_old()
        eventually(passes)  # it waits for messages
        rmq("publish", queue, "hang")
        eventually(lambda: rmq("stats", queue, "--json").records[0]["leased"] == 1)
        grow_old()
        time.sleep(2.5)  # a worker that waits would have set the time twice
        assert not passes()


def test_a_nightly_job_ends_and_says_that_a_message_failed(rmq: Rmq, folder: Path) -> None:
    arguments = ["0" if each == "30" else each for each in NIGHTLY["args"]]
    rmq("publish", "flights", "good")
    with running(folder, arguments) as process:
        assert process.wait(PATIENCE_S) == 0
    rmq("publish", "flights", "bad")
    with running(folder, arguments) as process:
        assert process.wait(PATIENCE_S) == 1


def test_a_unit_is_started_again_after_what_may_pass_only(folder: Path) -> None:
    never = {int(code) for code in _unit()["RestartPreventExitStatus"].split()}
    with running(folder, COMMANDS["systemd"], RMQ_URL="redis://127.0.0.1:1/0") as process:
        assert process.wait(PATIENCE_S) not in never  # Redis is away
    (folder / "tasks.py").unlink()
    with running(folder, COMMANDS["systemd"]) as process:
        assert process.wait(PATIENCE_S) in never


def test_a_file_that_cannot_be_written_is_told_before_anything_is_claimed(rmq: Rmq, folder: Path) -> None:
    rmq("publish", "flights", "good")
    with running(folder, ["run", "tasks:work", "-q", "flights", "--alive", "/no/such/folder/alive"]) as process:
        assert process.wait(PATIENCE_S) == 2
    assert rmq("peek", "flights", "--json").records[0]["deliveries"] == 0
