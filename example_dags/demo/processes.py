"""Processes of the demo: each has a session of its own and its output in a file, and none outlives the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from example_dags.demo.family import alive, descendants

STOP_GRACE_S = 15  # Spark may take 10 s to end
LAST_LINES = 25


class ChildFailed(RuntimeError):
    """A process of the demo ended with an error; the message holds the end of its log."""


class Child:
    """A process for the block `with Child(command, env, log) as child:`; at its end, all its descendants have ended."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self._command, self._log = command, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def runs(self) -> bool:
        """Return whether the process runs. Raises ChildFailed if it ended with an error."""
        if self._process.poll():
            raise self.failure(f"ended with exit code {self._process.returncode}")
        return self._process.returncode is None

    def wait(self) -> None:
        """Wait until the process ends. Raises ChildFailed."""
        while self.runs():
            time.sleep(0.1)

    def failure(self, what: str) -> ChildFailed:
        """Return an error that says what happened, with the last lines of the log."""
        lines = self._log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return ChildFailed("\n".join([f"{' '.join(self._command[:4])} … {what}; the end of {self._log}:", *lines]))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Send the signal to the process group, and SIGKILL to the processes still running after the grace time."""
        family = descendants(self._process.pid)
        try:
            self._signal(number)
            deadline = time.monotonic() + STOP_GRACE_S
            while (self._signal(0) or any(map(alive, family))) and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            self._signal(signal.SIGKILL)
            for pid in filter(alive, family):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: int) -> bool:
        self._process.poll()  # a group leader that was not reaped keeps its group alive
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):  # macOS returns EPERM for a group of zombies
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error, SIGKILL: an orchestrator may treat SIGTERM as the failure of a task, and retry the task. Spark
        # ends with its parent.
        self.stop(signal.SIGKILL if error else signal.SIGTERM)
