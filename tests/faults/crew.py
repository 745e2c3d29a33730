"""Processes that faults hit: started by the tests, controlled over pipes, and dead when the tests end."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import runpy
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.faults import tally
from tests.servers.process import DIES_WITH_US

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300
WHOLE = {"runner", "spark_driver", "table_driver"}
"""Roles that need an interpreter of their own: how it ends is their subject, or they start Java."""
PR_SET_PDEATHSIG = 1
WARM = multiprocessing.get_context("forkserver")
"""Processes that are forked from one that has imported the library, and the drivers it imports at the first use."""
WARM.set_forkserver_preload(
    [
        *("rmq_core.asyncio", "rmq_core.exchange.sync", "rmq_core.leased.queue", "rmq_core.jobs", "rmq_core.streams"),
        *("redis.asyncio", "tests.core.streams.databases", "tests.faults.crew", "tests.faults.victim"),
    ]
)


class Fork:
    """What `subprocess.Popen` is for a program, for a role in a process that is forked from a warm one."""

    def __init__(self, role: str, args: tuple[str, ...], environment: Mapping[str, str]) -> None:
        stdin, told = WARM.Pipe(duplex=False)
        heard, stdout = WARM.Pipe(duplex=False)
        with stdin, told, heard, stdout:
            self._process = WARM.Process(target=_play, args=(role, args, environment, stdin, stdout))
            self._process.start()
            self.stdin: IO[bytes] | None = os.fdopen(os.dup(told.fileno()), "wb", 0)
            self.stdout: IO[bytes] | None = os.fdopen(os.dup(heard.fileno()), "rb", 0)
        self.pid, self.kill = self._process.pid, self._process.kill

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid or 0, number)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        assert self._process.exitcode is not None
        return self._process.exitcode


def _play(
    role: str, args: tuple[str, ...], environment: Mapping[str, str], stdin: Connection, stdout: Connection
) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ.update(environment)
    for number, pipe in enumerate((stdin, stdout)):
        os.dup2(pipe.fileno(), number)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w", buffering=1)
    sys.argv = [role, *args]
    runpy.run_module(f"tests.faults.{role}", run_name="__main__", alter_sys=True)


class Member:
    """A process `python -m tests.faults.<role> <args>`, which prints a line for each thing it has done."""

    def __init__(self, role: str, *args: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        self.process: subprocess.Popen[bytes] | Fork
        if role not in WHOLE:
            self.process = Fork(role, args, environment)
            return
        command = [*DIES_WITH_US, sys.executable, "-m", f"tests.faults.{role}", *args]
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
