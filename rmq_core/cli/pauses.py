"""Checks whether a queue is paused. A claim on a paused queue gets no messages even if some are ready."""

from __future__ import annotations

from typing import Any

from rmq_core.cli.checks import Finding, Level
from rmq_core.queue.verbs import can

_ADVICE = "claims get nothing until `rmq resume QUEUE` (in Python, `queue.admin.resume()`)"


def paused(queue: Any) -> str | None:
    """Return a text that says the queue is paused and what to do; None when it is not paused."""
    return f"{queue.name} is paused: {_ADVICE}" if can(queue, "resume") and queue.stats().paused else None


def examine_pause(queue: Any) -> Finding:
    """Return the finding of `rmq doctor` about a pause."""
    if paused(queue):
        return Finding(Level.WARN, "pause", f"{queue.name} is paused", _ADVICE)
    return Finding(Level.OK, "pause", f"{queue.name} hands out messages")
