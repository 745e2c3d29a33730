"""Processes that import one version of RMQ."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.servers.process import DIES_WITH_US

MEMBER = Path(__file__).with_name("member.py")
_started: list[Process] = []


class Process:
    """A process of `member.py`. Its log goes to a file: a pipe that the test does not read would block it when full."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  `end` closes it
        self.running = subprocess.Popen(
            [*DIES_WITH_US, *command], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            text=True,
        )  # fmt: skip
        _started.append(self)

    def answer(self, request: str = "") -> str:
        """Send a line, if there is one to send, and return the line that the process answers."""
        assert self.running.stdin is not None
        assert self.running.stdout is not None
        if request:
            self.running.stdin.write(request + "\n")
            self.running.stdin.flush()
        line = self.running.stdout.readline().strip()
        assert line, self.said()
        return line

    def kill(self) -> None:
        """Send SIGKILL. The process must still run: one that ended before has failed, for example by a refused call."""
        assert self.running.poll() is None, self.said()
        self.end()

    def end(self) -> None:
        """Kill the process if it runs, and close what it shares with the test."""
        self.running.kill()
        self.running.communicate()
        self.log.close()
        _started.remove(self)

    def said(self) -> str:
        """Return the end of its log."""
        self.log.seek(0)
        return self.log.read()[-5000:]


class Version(NamedTuple):
    """A version of RMQ, unpacked into `folder`."""

    name: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that imports this version, as do the processes that it starts.

        Without PYTHONSAFEPATH, Spark's workers, started by `python -m`, would import the checkout in which they start.
        """
        own = {"PYTHONPATH": str(self.folder), "PYTHONSAFEPATH": "1", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
        return os.environ | own

    def start(self, role: str, *arguments: str, environment: dict[str, str] | None = None) -> Process:
        """Start a process of `member.py` that imports this version."""
        command = [sys.executable, str(MEMBER), str(self.folder), role, *arguments]
        return Process(command, self.environment | (environment or {}))


def end_all() -> None:
    """Kill the processes that a test has left, so that none works on the queue of the next test."""
    while _started:
        _started[-1].end()
