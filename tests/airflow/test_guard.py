"""The guard ends whole process groups, whether or not their members obey signals, and however their task ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from rmq_core.orchestrate import DriverGuard, guard
from tests.faults.patience import PATIENCE_S
from tests.servers.process import until

# A launcher with a driver as its child, as spark-submit is: the launcher's death alone does not end the driver.
FAMILY = """
import subprocess, sys, time
driver = "import signal, sys, time; {handler}; print('up', flush=True); time.sleep(600)"
subprocess.run([sys.executable, "-c", driver])
"""
OBEDIENT, DEAF = "pass", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def start_family(handler: str = OBEDIENT) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", FAMILY.format(handler=handler)]
    family = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert family.stdout is not None
    assert family.stdout.readline() == "up\n"
    return family


def members(group: int) -> list[int]:
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except ProcessLookupError:
            continue
    return found


def wait_until_gone(group: int) -> None:
    until(lambda: not members(group), PATIENCE_S)


def end(family: subprocess.Popen[str]) -> None:
    family.wait()
    assert family.stdout is not None
    family.stdout.close()


def test_stopping_ends_the_launcher_and_its_driver() -> None:
    family = start_family()
    assert len(members(family.pid)) == 2
    watched = DriverGuard(family.pid)
    watched.stop()
    wait_until_gone(family.pid)
    end(family)
    assert watched.wait(PATIENCE_S)


def test_a_driver_that_ignores_term_is_killed_after_the_grace_time() -> None:
    family = start_family(DEAF)
    watched = DriverGuard(family.pid)
    asked = time.monotonic()
    watched.stop()
    wait_until_gone(family.pid)
    took = time.monotonic() - asked
    end(family)
    assert took >= guard.TERM_TO_KILL_S
    assert watched.wait(PATIENCE_S)


def test_the_death_of_the_task_process_ends_the_driver(tmp_path: Path) -> None:
    family = start_family()
    task = f"""
import time
from rmq_core.orchestrate import DriverGuard
guard = DriverGuard({family.pid})
print("guarded", flush=True)
time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", task], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "guarded\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    wait_until_gone(family.pid)
    end(family)


def test_a_zombie_process_counts_as_ended() -> None:
    family = start_family()
    assert guard.alive(family.pid)
    os.killpg(family.pid, signal.SIGKILL)
    until(lambda: not guard.alive(family.pid), PATIENCE_S)  # the launcher is a zombie of this process
    end(family)
    assert not guard.alive(family.pid)
