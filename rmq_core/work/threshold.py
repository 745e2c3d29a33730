"""Decides whether a queue holds enough work: a pure function of the backlog that a poll returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from rmq_core.reports import Backlog, QueueStats

Counted: TypeAlias = Literal["ready", "dead", "depth"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Enough work is `min_messages` ready messages, or an oldest one of `max_age_s` seconds, whichever comes first."""

    min_messages: int = 1
    max_age_s: float | None = None

    def met_by(self, backlog: Backlog) -> bool:
        """Return whether the backlog meets the threshold."""
        age_s = backlog.oldest_age
        old = self.max_age_s is not None and age_s is not None and age_s >= self.max_age_s
        return backlog.ready >= self.min_messages or (old and backlog.ready > 0)

    def met_in(self, backlog: Backlog, otherwise: float) -> float:
        """Return the seconds until the oldest message is old enough; `otherwise` without an age limit or a message."""
        if self.max_age_s is None or backlog.oldest_age is None:
            return otherwise
        return self.max_age_s - backlog.oldest_age


def depth(stats: QueueStats) -> int:
    """Return the number of messages that are not done: ready, delayed or leased."""
    return stats.ready + stats.delayed + stats.leased


def counted(count: Counted, stats: QueueStats) -> int:
    """Return how many messages of a kind a queue holds; `depth` counts all that are not done."""
    return depth(stats) if count == "depth" else int(getattr(stats, count))
