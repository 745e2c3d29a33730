"""Decides whether a queue holds enough work, and when to say so again: pure functions of what a poll returned.

A paused queue asks for no work: its claims get no messages, so sensors wait on, and autoscalers start no workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from rmq_core.reports import Backlog, QueueStats

LONGEST_S = 600.0
Counted: TypeAlias = Literal["ready", "dead", "depth"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Enough work is `min_messages` ready messages, or an oldest one of `max_age_s` seconds, whichever comes first."""

    min_messages: int = 1
    max_age_s: float | None = None

    def met_by(self, backlog: Backlog) -> bool:
        """Return whether the backlog meets the threshold; that of a paused queue never does."""
        ready, age_s = claimable(backlog), backlog.oldest_age
        old = self.max_age_s is not None and age_s is not None and age_s >= self.max_age_s
        return ready >= self.min_messages or (old and ready > 0)

    def met_in(self, backlog: Backlog, otherwise: float) -> float:
        """Return the seconds until the oldest message is old enough; `otherwise` if age cannot decide."""
        if self.max_age_s is None or backlog.oldest_age is None or backlog.paused:
            return otherwise
        return self.max_age_s - backlog.oldest_age


def claimable(found: Backlog | QueueStats) -> int:
    """Return how many messages claims can get now: none while the queue is paused."""
    return 0 if found.paused else found.ready


def repeat_after_s(interval_s: float, in_vain: int) -> float:
    """Return after how many seconds a sensor repeats a request, if no run has claimed any of the ready messages.

    in_vain: how many requests there were since the last claim. Each doubles the interval, up to ten minutes.
    """
    return max(interval_s, min(interval_s * 2.0 ** min(in_vain, 30), LONGEST_S))


def depth(stats: QueueStats) -> int:
    """Return the number of messages that are not done: ready, delayed or leased."""
    return stats.ready + stats.delayed + stats.leased


def counted(count: Counted, stats: QueueStats) -> int:
    """Return how many messages of a kind a queue holds; `depth` counts all that are not done."""
    return depth(stats) if count == "depth" else int(getattr(stats, count))
