"""The time between two rounds of a reaper."""

from __future__ import annotations

from datetime import timedelta

from rmq_core.policy import seconds


def pause_between(interval: timedelta | float | None, timeout: timedelta | float) -> float:
    """Return the interval in seconds; None means a tenth of the timeout, at least 0.1 s and at most a minute."""
    if interval is not None:
        return seconds("interval", interval, minimum=0.001)
    return min(60.0, max(0.1, seconds("timeout", timeout, minimum=0.001) / 10))
