"""The driver's processes: when the block ends, every process that the command started has ended.

Killing `spark-submit` alone leaves its Python driver running, so the command gets a session of its own and signals go
to the whole process group.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Self

from rmq_core.work import end_group


class DriverProcess:
    """A command running in its own process group: `with DriverProcess(...) as driver: driver.wait(1.0)`."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: str | None = None, stop_grace_s: float = 10
    ) -> None:
        self._stop_grace_s = stop_grace_s
        self._process = subprocess.Popen(list(command), env={**os.environ, **env}, cwd=cwd, start_new_session=True)
        self.pid = self._process.pid

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code (negative: the signal that killed it), or None when it still runs after `timeout_s`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """Send SIGTERM to the group, and SIGKILL after the grace time, or at once when interrupted a second time."""
        try:
            end_group(self.pid, self._stop_grace_s, self._process.poll)
        finally:
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
