"""The driver's processes. Stopping Spark stops Spark: everything the command started is gone when the block ends.

Killing `spark-submit` alone leaves its Python driver working, so the command gets a session of its own and signals go
to the whole group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

POLL_S = 0.1


class DriverProcess:
    """A command running in its own process group: `with DriverProcess(...) as driver: driver.wait(1.0)`."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: str | None = None, stop_grace_s: float = 10
    ) -> None:
        self._stop_grace_s = stop_grace_s
        self._process = subprocess.Popen(  # noqa: S603 - running the user's command is the purpose
            list(command), env={**os.environ, **env}, cwd=cwd, start_new_session=True
        )
        self.pid = self._process.pid

    def wait(self, timeout_s: float) -> int | None:
        """The exit code (negative: the signal that killed it), or None when it still runs after `timeout_s`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """SIGTERM to the group, SIGKILL after the grace time; at once when interrupted a second time."""
        try:
            self._signal(signal.SIGTERM)
            self._await_end(self._stop_grace_s)
        finally:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _await_end(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._alive() and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _alive(self) -> bool:
        self._process.poll()  # reaps the leader, which would otherwise keep its group alive as a zombie
        return self._signal(0)

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
