"""What befalls the first of many mapped tasks, each once, while they hold messages.

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
"""How many of them Airflow does not try again."""
KILLED = 2
"""How many are failures of their messages."""
SAID = {0: "it was cleared", 1: "failed", 2: "success", 5: "was told to shut down"}
"""What those that are no failure write into their log."""


def place_of(queue: str, map_index: int) -> str:
    """The ledger at which a task stands still until something has befallen it."""
    return f"{queue}.{map_index}"
