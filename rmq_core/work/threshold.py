"""When a queue holds enough: a pure decision on what a look returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from rmq_core.reports import Backlog, QueueStats

Counted: TypeAlias = Literal["ready", "dead", "depth"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Enough is `min_messages` ready ones, or an oldest one of `max_age_s` seconds, whichever comes first."""

    min_messages: int = 1
    max_age_s: float | None = None

    def met_by(self, backlog: Backlog) -> bool:
        """Whether there is enough work to go on."""
        age_s = backlog.oldest_age
        old = self.max_age_s is not None and age_s is not None and age_s >= self.max_age_s
        return backlog.ready >= self.min_messages or (old and backlog.ready > 0)

    def met_in(self, backlog: Backlog, otherwise: float) -> float:
        """Seconds until the oldest message is old enough; `otherwise` when no age would be, or none waits."""
        if self.max_age_s is None or backlog.oldest_age is None:
            return otherwise
        return self.max_age_s - backlog.oldest_age


def depth(stats: QueueStats) -> int:
    """All the work that is not done: ready, delayed or leased."""
    return stats.ready + stats.delayed + stats.leased


def counted(count: Counted, stats: QueueStats) -> int:
    """How many messages of a kind a queue holds; `depth` is all that is still to be done."""
    return depth(stats) if count == "depth" else int(getattr(stats, count))
