"""Faults that hit the first of many mapped tasks, each once, while they hold messages.

Tasks import this file, too.
"""

from __future__ import annotations

SHARE = 30
VICTIMS = (
    "cleared",
    "marked failed",
    "marked success",
    "SIGKILL",
    "SIGKILL of supervisor and task",
    "SIGTERM of its supervisor",
)
MARKED = 2
"""The number of tasks that Airflow does not retry."""
KILLED = 2
"""The number of tasks whose end is a failure of their messages."""
SAID = {0: "it was cleared", 1: "failed", 2: "success", 5: "was told to shut down"}
"""The log text of the tasks whose end is not a failure."""


def place_of(queue: str, map_index: int) -> str:
    """The ledger at which a task waits until a fault has hit it."""
    return f"{queue}.{map_index}"
