"""Processes of the demo: each in a session of its own with its output in a file, and none outlives the demo."""

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
    """`with Child(command, env, log) as child:` is a process that is gone, descendants included, after the block."""

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
        """False when it ended well; ChildFailed when it did not."""
        if self._process.poll():
            raise self.failure(f"ended with exit code {self._process.returncode}")
        return self._process.returncode is None

    def wait(self) -> None:
        """Until it ends. Raises ChildFailed."""
        while self.runs():
            time.sleep(0.1)

    def failure(self, what: str) -> ChildFailed:
        """An error that says what happened, with the last lines of the log."""
        lines = self._log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return ChildFailed("\n".join([f"{' '.join(self._command[:4])} … {what}; the end of {self._log}:", *lines]))

    def stop(self, number: int = signal.SIGTERM) -> None:
        """That signal to the group, and SIGKILL to what is left of the family after the grace time."""
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
        self._process.poll()  # a leader that was not waited for keeps its group alive
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
            return False
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An orchestrator may take a polite signal for the failure of a task, and retry it. Spark ends with its parent.
        self.stop(signal.SIGKILL if error else signal.SIGTERM)
