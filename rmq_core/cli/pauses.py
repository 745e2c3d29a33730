"""Whether a queue is paused: it hands out nothing then, whatever it holds."""

from __future__ import annotations

from typing import Any

from rmq_core.cli.checks import Finding, Level

_ADVICE = "claims get nothing until its `resume()` is called"


def paused(queue: Any) -> str | None:
    """That a queue is paused, and what to do; None when it hands out messages."""
    able = hasattr(queue, "resume")  # other disciplines cannot be paused
    return f"{queue.name} is paused: {_ADVICE}" if able and queue.stats().paused else None


def examine_pause(queue: Any) -> Finding:
    """What a doctor says of it."""
    if paused(queue):
        return Finding(Level.WARN, "pause", f"{queue.name} is paused", _ADVICE)
    return Finding(Level.OK, "pause", f"{queue.name} hands out messages")
