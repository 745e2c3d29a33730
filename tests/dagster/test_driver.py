from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from rmq_dagster.pipes import DriverProcess
from tests.faults.patience import PATIENCE_S, eventually

DEAF_FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    open(sys.argv[1], "w").write(f"{os.getpid()} {child}.")
time.sleep(600)
"""
ORPHAN = """
import os, sys, time
child = os.fork()
if child:
    with open(sys.argv[1], "w") as note:
        note.write(f"{os.getpid()} {child}.")
    os._exit(0)
time.sleep(600)
"""


def family(note: Path) -> list[int]:
    """Return the processes once they all run."""
    eventually(lambda: note.exists() and note.read_text().endswith("."))
    return [int(pid) for pid in note.read_text().rstrip(".").split()]


def await_end(pid: int) -> None:
    """Wait until a killed process has ended: on a busy machine the kernel takes some time."""
    eventually(lambda: gone(pid))


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def test_the_exit_code_is_that_of_the_command_and_a_signal_is_negative() -> None:
    with DriverProcess([sys.executable, "-c", "raise SystemExit(7)"], env={}) as driver:
        assert driver.wait(PATIENCE_S) == 7
    with DriverProcess(["sleep", "600"], env={}) as driver:
        os.kill(driver.pid, signal.SIGKILL)
        assert driver.wait(PATIENCE_S) == -signal.SIGKILL


def test_processes_that_ignore_sigterm_are_killed_after_the_grace_time(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    with DriverProcess([sys.executable, "-c", DEAF_FAMILY, str(note)], env={}, stop_grace_s=0.5):
        pids = family(note)
        started = time.monotonic()
    assert time.monotonic() - started >= 0.5
    for pid in pids:
        await_end(pid)


def test_processes_left_by_the_command_end_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    with DriverProcess([sys.executable, "-c", ORPHAN, str(note)], env={}) as driver:
        assert driver.wait(PATIENCE_S) == 0
        pids = family(note)
    for pid in pids:
        await_end(pid)


def test_a_second_interrupt_kills_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    driver = DriverProcess([sys.executable, "-c", DEAF_FAMILY, str(note)], env={}, stop_grace_s=600)
    pids = family(note)

    tested, sleep = threading.get_ident(), time.sleep

    def interrupt(seconds: float) -> None:
        if threading.get_ident() == tested:
            raise KeyboardInterrupt
        sleep(seconds)

    with monkeypatch.context() as patch:
        patch.setattr("time.sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            driver.stop()
    for pid in pids:
        await_end(pid)
