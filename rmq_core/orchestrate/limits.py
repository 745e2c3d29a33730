"""What is enough work for a consumer, and what is too much: one definition for sensors, checks, alerts and pages.

Pure functions of what a poll returned. A paused queue asks for no work: its claims get no messages, so sensors wait on,
and autoscalers start no workers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, TypeAlias

from rmq_core.errors import ConfigurationError
from rmq_core.reports import Backlog, Publication, QueueStats

Grade: TypeAlias = Literal["warn", "error"]
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


def unmet(found: Publication) -> str:
    """Return why a publication is not done, or not well; '' if each of its messages was acked or removed."""
    counts = {
        "waiting": found.waiting, "leased": found.leased, "dead": found.dead, "still publishing": found.publishers,
    }  # fmt: skip
    left = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    if left or found.done:
        return left
    return "it has not ended" if found.messages else "nothing was published under this name"


@dataclass(frozen=True)
class LimitBounds:
    """Bounds of a value: above `warn` it needs attention soon, above `error` at once."""

    warn: float | None = None
    error: float | None = None

    def __post_init__(self) -> None:
        name = type(self).__name__
        bounds = [bound for bound in (self.warn, self.error) if bound is not None]
        if not bounds:
            raise ConfigurationError(f"{name} needs `warn`, `error` or both: without a bound nothing can fail")
        if not all(bound >= 0 for bound in bounds) or bounds != sorted(bounds):  # written so that NaN fails
            raise ConfigurationError(f"{name} needs 0 <= warn <= error, not {self}")

    def grade(self, value: float) -> Grade | None:
        """Return the bound that the value exceeds, `"error"` first; None when it exceeds none."""
        if self.error is not None and value > self.error:
            return "error"
        return "warn" if self.warn is not None and value > self.warn else None


class Exceeded(NamedTuple):
    """A number of a queue that is above a bound; `name` is that of the limit."""

    name: str
    value: float
    bound: float
    grade: Grade


_MEASURES: dict[str, Callable[[QueueStats], float]] = {
    "depth": depth,
    "oldest_age": lambda stats: stats.oldest_age or 0,
    "dead_letters": lambda stats: stats.dead,
    "isolated": lambda stats: stats.isolated,
    "lease_age": lambda stats: stats.oldest_lease or 0,
}


@dataclass(frozen=True, kw_only=True)
class StatsLimits:
    """Limits of what `stats()` returns; a limit of None is not checked.

    depth: messages that are ready, delayed or leased. oldest_age: seconds since the oldest ready one was published.
    dead_letters: messages that failed too often. isolated: ready messages that failed together before and are tried
    apart from the others. lease_age: seconds since the lease was claimed that is held the longest.
    """

    depth: LimitBounds | None = None
    oldest_age: LimitBounds | None = None
    dead_letters: LimitBounds | None = LimitBounds(error=0)
    isolated: LimitBounds | None = None
    lease_age: LimitBounds | None = None

    def given(self) -> dict[str, LimitBounds]:
        """Return the limits that are set, by their names."""
        every = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: limit for name, limit in every.items() if limit is not None}

    def measure(self, stats: QueueStats) -> dict[str, float]:
        """Return the value that each limit that is set is compared with, by its name."""
        return {name: _MEASURES[name](stats) for name in self.given() if name in _MEASURES}

    def exceeded(self, stats: QueueStats) -> list[Exceeded]:
        """Return the limits that a queue with these counts exceeds, errors first."""
        given = self.given()
        found = [
            Exceeded(name, value, float(getattr(given[name], grade)), grade)
            for name, value in self.measure(stats).items()
            if (grade := given[name].grade(value))
        ]
        return sorted(found, key=lambda each: each.grade)


@dataclass(frozen=True, kw_only=True)
class AlertLimits:
    """When a queue or its server needs an operator; times are seconds. monitoring/prometheus/rules.yml has the same.

    stats: bounds of a queue's numbers; an alert counts only the dead letters of the last `dead_within`. A lease is long
    after three times the 5 minutes for which claims hold it by default: heartbeats do not tell a holder that hangs from
    one that works, so only the time can. growth: how many messages more than `growth_within` ago make a growing
    backlog. recent: for how long a claim, or a lease that is held, shows that the queue has a consumer. unclaimed:
    after how long the console says that messages are ready and nobody claims; the alert waits for `idle`, because a
    queue that a schedule works off is like this between two runs. failed: more failed deliveries than this, and than
    acked messages, within 15 minutes make consumers that fail; the console says so. crashing: leases that expire in two
    such spans, one after the other, are a crash loop. old_numbers: how old the numbers of `rmq serve` may be. The
    others are how long a state lasts before it is an alert: no_metrics, unreachable (the server), stale (the numbers
    are older), unreadable (a queue), late (the oldest age is above its bound), expired (leases that no client
    reclaims), looping (the crash loop), paused, idle (messages are ready and no client claims) and isolated.
    """

    stats: StatsLimits = field(
        default_factory=lambda: StatsLimits(
            oldest_age=LimitBounds(warn=600, error=3600),
            dead_letters=LimitBounds(warn=0, error=100),
            isolated=LimitBounds(warn=0),
            lease_age=LimitBounds(warn=900),
        )
    )
    dead_within: float = 3600
    growth: float = 100
    growth_within: float = 1800
    recent: float = 300
    unclaimed: float = 20
    failed: float = 4
    crashing: float = 600
    old_numbers: float = 120
    no_metrics: float = 300
    unreachable: float = 120
    stale: float = 300
    unreadable: float = 300
    late: float = 300
    expired: float = 300
    looping: float = 300
    paused: float = 1800
    idle: float = 600
    isolated: float = 900


ALERTS = AlertLimits()
"""The limits of the alerts that RMQ ships."""
