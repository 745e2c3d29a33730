"""Who descends from whom among the machine's processes.

Spark runs in a session of its own, where a signal to the process group of the orchestrator does not reach it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

PROC = Path("/proc")


def descendants(pid: int) -> list[int]:
    """The processes that `pid` started, and those started by them."""
    everybody = parents()
    found: list[int] = []
    generation = {pid}
    while generation := {child for child, parent in everybody.items() if parent in generation}:
        found += generation
    return found


def alive(pid: int) -> bool:
    """Whether it still runs; a zombie does not."""
    return pid in parents()


def parents() -> dict[int, int]:
    """Every process but the zombies, and its parent: from /proc, or where there is none, from `ps`."""
    if not (PROC / "self" / "stat").exists():
        listing = subprocess.run(["ps", "-Ao", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
        rows = [line.split() for line in listing.stdout.splitlines()]
        return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}
    found = (_stat(int(folder.name)) for folder in PROC.iterdir() if folder.name.isdecimal())
    return {pid: parent for pid, state, parent in filter(None, found) if state != "Z"}


def _stat(pid: int) -> tuple[int, str, int] | None:
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
        return None
    # The name of the command stands in parentheses and may hold anything, parentheses too.
    state, parent = text.rpartition(")")[2].split()[:2]
    return pid, state, int(parent)
