"""Processes that faults hit: started by the tests, controlled over pipes, and dead when the tests end."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.faults import tally
from tests.servers.process import DIES_WITH_US

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300


class Member:
    """A process `python -m tests.faults.<role> <args>`, which prints a line for each thing it has done."""

    def __init__(self, role: str, *args: str) -> None:
        command = [*DIES_WITH_US, sys.executable, "-m", f"tests.faults.{role}", *args]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def hear(self) -> str:
        """Return the next line it prints; unbuffered, because a test cannot wait for a line that is buffered."""
        heard = _pipe(self.process.stdout)
        with selectors.DefaultSelector() as waiting:
            waiting.register(heard, selectors.EVENT_READ)
            assert waiting.select(PATIENCE_S), "the process says nothing"
        return heard.readline().decode().strip()

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        _pipe(self.process.stdin).write(f"{line}\n".encode())

    def kill(self) -> None:
        """Send SIGKILL."""
        tally.count("process killed")
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Send SIGSTOP; return when the process is stopped."""
        tally.count("process stopped for longer than its lease")
        self.process.send_signal(signal.SIGSTOP)
        status, deadline = Path(f"/proc/{self.process.pid}/stat"), time.monotonic() + PATIENCE_S
        while status.read_text().rsplit(")", 1)[1].split()[0] != "T":
            assert time.monotonic() < deadline, "the process does not stop"
            time.sleep(0.002)

    def wake(self) -> None:
        """Send SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def wait(self) -> int:
        """Return its exit status."""
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wake()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            _pipe(pipe).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
