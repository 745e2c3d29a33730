"""Ending the process group of a driver: on purpose, or when the process that started it ends, however that happens.

Law: where that process may be killed, the decision must not live in it. Airflow kills a task 5 s after asking it to
stop, and a SIGKILL asks nothing; a driver in a session of its own would survive both. So a small process holds the
other end of a pipe: when that closes (on purpose, or because the kernel closed it for a dead task) it ends the group.

The file runs as a script too: it imports nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TERM_TO_KILL_S = 10.0
KILL_TO_GONE_S = 5.0  # the kernel takes its time over a process with much memory
POLL_S = 0.1


class DriverGuard:
    """The guard of one process group; `stop` asks it to act, and this process's death does so too."""

    def __init__(self, group: int) -> None:
        # -I -S: no site, no environment: the guard starts in tens of milliseconds and imports nothing of the user's.
        self._process = subprocess.Popen(  # noqa: S603  our own interpreter, our own file, a number
            [sys.executable, "-I", "-S", __file__, str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        """Have the group ended; returns at once, may be called again and from a signal handler."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def wait(self, timeout: float = TERM_TO_KILL_S + KILL_TO_GONE_S + 1.0) -> bool:
        """Stop, and wait up to `timeout` seconds for the group to be gone; whether it is."""
        self.stop()
        try:
            return self._process.wait(timeout) == 0
        except subprocess.TimeoutExpired:
            return False


def end_group(group: int, grace_s: float = TERM_TO_KILL_S, reap: Callable[[], object] = lambda: None) -> bool:
    """TERM to every process of a group, KILL to what is left of it after `grace_s`, or at once when interrupted.

    Returns whether nothing is left, as soon as nothing is, or some seconds after the KILL. `reap` takes leave of the
    leader, for the process whose child that is.
    """
    gone = False
    try:
        _signal(group, signal.SIGTERM)
        gone = _ends(group, grace_s, reap)
    finally:
        if not gone:
            _signal(group, signal.SIGKILL)
            gone = _ends(group, KILL_TO_GONE_S, reap)
    return gone


def _ends(group: int, within_s: float, reap: Callable[[], object]) -> bool:
    deadline = time.monotonic() + within_s
    while alive(group, reap):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def alive(group: int, reap: Callable[[], object] = lambda: None) -> bool:
    """Whether a process of the group still runs. One that is dead and waits for its parent to notice does not."""
    reap()
    if not _signal(group, 0):
        return False
    members = [fields for fields in map(_stat, Path("/proc").glob("[0-9]*/stat")) if fields[2:3] == [str(group)]]
    return not members or any(state != "Z" for state, *_ in members)


def _signal(group: int, number: int) -> bool:
    """Send it; False when there is no such group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # On Linux, of a process that changed its user and is not ours to stop; macOS says it of a group of zombies.
        return sys.platform == "linux"
    return True


def _stat(file: Path) -> list[str]:
    """State, parent, group, … of a process; empty when it has ended. Its name, in parentheses, may hold anything."""
    try:
        return file.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


if __name__ == "__main__":
    sys.stdin.buffer.read()  # returns when the other end is closed: the task ended, or asks for the stop
    sys.exit(not end_group(int(sys.argv[1])))
