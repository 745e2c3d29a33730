"""Names: a queue's may have any characters, Dagster's have letters, digits and underscores."""

from __future__ import annotations

import re


def dagster_name(queue: str) -> str:
    """What Dagster accepts as the name of something that belongs to a queue."""
    return re.sub(r"\W+", "_", queue)
