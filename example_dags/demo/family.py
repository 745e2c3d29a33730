"""Find the descendants of a process.

Spark runs in a session of its own, so a signal to the process group of the orchestrator does not reach it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

PROC = Path("/proc")


def descendants(pid: int) -> list[int]:
    """Return all descendants of `pid`: the processes that it started, and those that they started."""
    everybody = parents()
    found: list[int] = []
    generation = {pid}
    while generation := {child for child, parent in everybody.items() if parent in generation}:
        found += generation
    return found


def alive(pid: int) -> bool:
    """Return whether the process still runs; a zombie does not."""
    return pid in parents()


def parents() -> dict[int, int]:
    """Return the parent of every process except zombies; read /proc, or `ps` on a system without /proc."""
    if not (PROC / "self" / "stat").exists():
        listing = subprocess.run(["ps", "-Ao", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
        rows = [line.split() for line in listing.stdout.splitlines()]
        return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}
    found = (_stat(int(folder.name)) for folder in PROC.iterdir() if folder.name.isdecimal())
    return {pid: parent for pid, state, parent in filter(None, found) if state != "Z"}


def _stat(pid: int) -> tuple[int, str, int] | None:
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the process has just ended
        return None
    # The name of the command is in parentheses and may contain any character, also parentheses.
    state, parent = text.rpartition(")")[2].split()[:2]
    return pid, state, int(parent)
