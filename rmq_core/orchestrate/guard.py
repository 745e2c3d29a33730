"""Ends the process group of a driver: on request, or when the process that started it ends for any reason.

Law: a process that may be killed must not be the one that ends the group. Airflow kills a task 5 s after asking it to
stop, and SIGKILL gives no warning; a driver in a session of its own would survive both. Therefore a small guard
process holds the other end of a pipe. When the pipe closes, on request or because the task died, the guard ends the
group.

The file also runs as a script, so it imports nothing but the standard library.
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
KILL_TO_GONE_S = 5.0  # the kernel needs time to end a process with much memory
POLL_S = 0.1


class DriverGuard:
    """The guard of one process group; it ends the group on `stop` or when this process dies."""

    def __init__(self, group: int) -> None:
        # -I -S: no site module, no environment. The guard starts in tens of milliseconds and imports no user code.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        """Make the guard end the group, without waiting. Safe to call repeatedly and from a signal handler."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def wait(self, timeout: float = TERM_TO_KILL_S + KILL_TO_GONE_S + 1.0) -> bool:
        """Stop, wait up to `timeout` seconds for the group to end, and return whether it has ended."""
        self.stop()
        try:
            return self._process.wait(timeout) == 0
        except subprocess.TimeoutExpired:
            return False


def end_group(group: int, grace_s: float = TERM_TO_KILL_S, reap: Callable[[], object] = lambda: None) -> bool:
    """Send TERM to every process of a group, then KILL to those left after `grace_s`, or at once when interrupted.

    Returns True as soon as no process is left, or False some seconds after the KILL. `reap` is called to collect the
    exit status of the group's leader; pass it if the leader is a child of this process.
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
    """Return whether a process of the group still runs. Zombies, which only wait for their parent, do not count."""
    reap()
    if not _signal(group, 0):
        return False
    members = [fields for fields in map(_stat, Path("/proc").glob("[0-9]*/stat")) if fields[2:3] == [str(group)]]
    return not members or any(state != "Z" for state, *_ in members)


def _signal(group: int, number: int) -> bool:
    """Send a signal to the group; return False when there is no such group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Linux reports this for a process that changed its user and that we may not stop, macOS for a group of zombies.
        return sys.platform == "linux"
    return True


def _stat(file: Path) -> list[str]:
    """Return state, parent, group, … of a process; empty if it has ended. Its name in parentheses is skipped."""
    try:
        return file.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


if __name__ == "__main__":
    sys.stdin.buffer.read()  # returns when the other end is closed: the task ended or called `stop`
    sys.exit(not end_group(int(sys.argv[1])))
