"""Processes that import one version of RMQ."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

MEMBER = Path(__file__).with_name("member.py")


class Version(NamedTuple):
    """A version of RMQ, unpacked into `folder`."""

    name: str
    folder: Path

    def start(self, role: str, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a process of `member.py` that imports this version."""
        own = {"PYTHONPATH": str(self.folder), "PYTHONWARNINGS": "ignore::DeprecationWarning"}
        return subprocess.Popen(
            [sys.executable, str(MEMBER), str(self.folder), role, *arguments],
            env={**os.environ, **own, **(environment or {})},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


def answer(process: subprocess.Popen[str], request: str = "") -> str:
    """Send a line to a process, if there is one to send, and return the line that it answers."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    if request:
        process.stdin.write(request + "\n")
        process.stdin.flush()
    line = process.stdout.readline().strip()
    assert line, process.stderr.read()
    return line


def kill(process: subprocess.Popen[str]) -> None:
    """Send SIGKILL. The process must still run: one that ended before has failed."""
    assert process.stderr is not None
    assert process.poll() is None, process.stderr.read()
    process.kill()
    process.communicate()
