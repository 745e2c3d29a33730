"""The history of a queue, with latencies as histograms and marks, and the timeline of one message. Values without IO.

Redis keeps a minute as text, `<minute> p+12 c+12 w3+4 g=7 g^9`: each item is a name, how it is merged (`+` added, `^`
the largest, `=` the newest) and a whole number. docs/reference/stored-format.md defines it.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from itertools import accumulate, takewhile
from math import ceil
from typing import Any, Self

from rmq_core.policy import moment

BOUNDS_S = tuple(2.0**power for power in range(-7, 15))
"""The upper bounds of the buckets of a Histogram, in seconds; a last bucket has no bound."""
LETTERS = {
    "p": "published", "u": "duplicates", "o": "dropped", "c": "claimed", "a": "acked", "n": "nacked", "r": "released",
    "e": "reclaimed", "t": "taken_over", "d": "dead", "v": "redriven", "l": "lost", "i": "isolated",
    "x": "replaced",
}  # fmt: skip
"""The counts by the letter under which Redis keeps them."""
EVENTS = tuple(LETTERS.values())
_ITEM = re.compile(r"([a-z]+\d*[+^=])(\d+)")
_FIRST_POWER = -7
BREAKER = "breaker"
"""By whom a queue is paused that paused itself, see `policy.Breaker`."""
_acting: ContextVar[str | None] = ContextVar("rmq_acting", default=None)


@contextmanager
def acting_as(who: str) -> Iterator[None]:
    """Name who is responsible for the operations of a block; marks show it instead of the user of this process."""
    before = _acting.set(who)
    try:
        yield
    finally:
        _acting.reset(before)


def actor() -> str:
    """Return who acts: the name given to `acting_as`, else `<user>@<host>` of this process."""
    return _acting.get() or f"{_user()}@{os.uname().nodename}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run under a number that has no name
        return str(os.getuid())


def bucket_below(power: int) -> int:
    """Return the index of the bucket of durations below two to this power."""
    return min(max(power - _FIRST_POWER, 0), len(BOUNDS_S))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations of messages in seconds. `counts` has one number per bound of BOUNDS_S and a last one above them all.

    The counts are not cumulative. max: the longest duration; None when there is none, and in totals.
    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    sum: float = 0.0
    max: float | None = None

    @property
    def count(self) -> int:
        """How many durations there are."""
        return sum(self.counts)

    @property
    def p50(self) -> float | None:
        """The median."""
        return self.quantile(0.5)

    @property
    def p95(self) -> float | None:
        """The duration that 19 of 20 messages stay below."""
        return self.quantile(0.95)

    def quantile(self, share: float) -> float | None:
        """Return the duration below which this share lies, interpolated within its bucket; None without durations."""
        wanted = share * self.count
        if not self.count:
            return None
        reached = list(accumulate(self.counts))
        at = next(place for place, so_far in enumerate(reached) if so_far >= wanted and self.counts[place])
        low = BOUNDS_S[at - 1] if at else 0.0
        high = BOUNDS_S[at] if at < len(BOUNDS_S) else low
        found = low + (high - low) * (wanted - reached[at] + self.counts[at]) / self.counts[at]
        return found if self.max is None else min(found, self.max)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """What points and totals have in common: the counts and the two histograms."""

    published: int = 0
    duplicates: int = 0
    dropped: int = 0
    claimed: int = 0
    acked: int = 0
    nacked: int = 0
    released: int = 0
    reclaimed: int = 0
    taken_over: int = 0
    dead: int = 0
    redriven: int = 0
    lost: int = 0
    isolated: int = 0
    replaced: int = 0
    wait: Histogram = Histogram()
    processing: Histogram = Histogram()

    @classmethod
    def counts_in(cls, found: Mapping[str, int]) -> dict[str, Any]:
        """Return the counts and histograms of items by name, as arguments of a subclass."""
        counts: dict[str, Any] = {name: found.get(f"{letter}+", 0) for letter, name in LETTERS.items()}
        return counts | {"wait": histogram_in(found, "w"), "processing": histogram_in(found, "s")}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint(_Counted):
    """What happened to the messages of a queue in one minute or hour that began at `at` and lasts `seconds`.

    ready, oldest_age: what the last client saw in it; None when none looked, or nothing was ready. ready_max,
    oldest_age_max: the largest that a client saw. wait: from publishing to the first claim. processing: from the claim
    to ack or nack, by the clock of the holder. last_claim: the seconds from `at` until claims were counted last; None
    in hours, in minutes without a claim, and if earlier versions counted them.
    """

    at: datetime
    seconds: int
    ready: int | None = None
    ready_max: int | None = None
    oldest_age: float | None = None
    oldest_age_max: float | None = None
    last_claim: float | None = None

    @classmethod
    def of(cls, number: int, seconds: int, text: str | None) -> Self:
        """Return the point of a minute or hour, counted from 1970. A text of another minute stands for nothing."""
        if not text or not text.startswith(f"{number} "):  # most minutes of most queues
            return cls(at=moment(number * seconds * 1000), seconds=seconds)
        found = items(text)
        oldest, oldest_max = found.get("y="), found.get("y^")
        ready, last_ms = found.get("g="), found.get("c=")
        return cls(
            at=moment(number * seconds * 1000), seconds=seconds, **cls.counts_in(found),
            ready=ready, ready_max=found.get("g^"),
            oldest_age=oldest / 1000 if oldest is not None and ready else None,
            oldest_age_max=None if oldest_max is None else oldest_max / 1000,
            last_claim=None if last_ms is None else last_ms / 1000,
        )  # fmt: skip

    def record(self) -> dict[str, Any]:
        """Return the point as JSON; durations are in seconds."""
        plain = {
            each.name: getattr(self, each.name) for each in fields(self) if each.name not in {"wait", "processing"}
        }
        spans = {name: getattr(self, name) for name in ("wait", "processing")}
        shown = {
            f"{name}_{figure}": rounded(getattr(span, figure))
            for name, span in spans.items()
            for figure in ("p50", "p95", "max")
        }
        return {**plain, "at": self.at.isoformat(), **shown}


def reach(back: timedelta) -> tuple[int | None, int | None]:
    """Return how many minutes, or else hours, of a history reach so far back; the history keeps a day of minutes."""
    minutes = max(1, ceil(back / timedelta(minutes=1)) + 1)
    return (minutes, None) if minutes <= 1440 else (None, ceil(minutes / 60) + 1)


def between(points: Sequence[HistoryPoint], first: datetime, last: datetime) -> list[HistoryPoint]:
    """Return the points of which a part is in a time."""
    return [each for each in points if each.at + timedelta(seconds=each.seconds) > first and each.at <= last]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTotals(_Counted):
    """What happened to the messages of a queue since its history began; these numbers never become smaller."""

    since: datetime | None = None

    @classmethod
    def of(cls, text: str | None) -> Self:
        """Return the totals that Redis keeps; None stands for a queue without a history."""
        if not text:
            return cls()
        return cls(since=moment(text.partition(" ")[0]), **cls.counts_in(items(text)))


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that an operator did to a queue.

    kind: the word of the verb, such as `pause` or `run-now`, or `mark` for a free text.
    """

    at: datetime
    kind: str
    by: str
    text: str

    @classmethod
    def of(cls, line: str) -> Self:
        """Return the mark of a line."""
        at_ms, kind, by, text = line.split("\t", 3)
        return cls(moment(at_ms), kind, by, text)

    def record(self) -> dict[str, str]:
        """Return the mark as JSON."""
        return {**asdict(self), "at": self.at.isoformat()}


def pause_reason(marks: Sequence[Mark]) -> str:
    """Return who paused a queue that is paused, and why: `paused by the breaker: 20 dead letters within 10 minutes`.

    If several did, the first counts. It is `paused` alone if no mark tells, such as that of a client without history.
    """
    since = takewhile(lambda mark: mark.kind != "resume", reversed(marks))
    pauses = [mark for mark in since if mark.kind == "pause"]
    if not pauses:
        return "paused"
    first = pauses[-1]
    by = "the breaker" if first.by == BREAKER else first.by
    return ": ".join(filter(None, (f"paused by {by}", first.text)))


def items(text: str) -> dict[str, int]:
    """Return the items of a minute by name, as Redis keeps them."""
    return {name: int(value) for name, value in _ITEM.findall(text)}


def histogram_in(found: Mapping[str, int], letter: str) -> Histogram:
    """Return the histogram whose items begin with a letter."""
    counts = tuple(found.get(f"{letter}{at}+", 0) for at in range(len(BOUNDS_S) + 1))
    longest = found.get(f"{letter}x^")
    return Histogram(counts, found.get(f"{letter}s+", 0) / 1000, None if longest is None else longest / 1000)


def columns(points: Sequence[HistoryPoint]) -> dict[str, list[Any]]:
    """Return points as JSON column by column, as charts want them."""
    records = [point.record() for point in points]
    return {name: [each[name] for each in records] for name in (records[0] if records else ())}


def rounded(seconds: float | None) -> float | None:
    """Return a duration in milliseconds' precision."""
    return None if seconds is None else round(seconds, 3)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened to a message. `who` is an owner or a publisher, `lease_id` the lease it happened under.

    source: where it is known from: `message`, `lease`, `marks` or `journal`. at: None when the time is not known.
    """

    at: datetime | None
    what: str
    who: str = ""
    lease_id: str = ""
    detail: str = ""
    source: str = "message"

    def record(self) -> dict[str, Any]:
        """Return the step as JSON."""
        return {**asdict(self), "at": self.at.isoformat() if self.at else None}


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline of a message. state: the part of the queue that holds the message now; `gone` if no part does.

    steps: oldest first. unknown: what cannot be known, and why. claims, acks: how often it was claimed and acked
    according to the journal; None without one.
    """

    queue: str
    message_id: str
    state: str
    steps: tuple[Step, ...] = ()
    unknown: tuple[str, ...] = ()
    claims: int | None = None
    acks: int | None = None

    @property
    def verdict(self) -> str:
        """A sentence on whether the message was processed more than once, according to the journal."""
        if self.claims is None or self.acks is None:
            return "how often it was processed is unknown without a journal"
        if self.claims > 1:
            return (
                f"delivered {self.claims} times, acked {_times(self.acks)}: it may have been processed more than once"
            )
        return f"delivered {_times(self.claims)}, acked {_times(self.acks)}"

    def record(self) -> dict[str, Any]:
        """Return the timeline as JSON."""
        plain = {name: getattr(self, name) for name in ("queue", "message_id", "state", "claims", "acks", "verdict")}
        return {**plain, "steps": [step.record() for step in self.steps], "unknown": list(self.unknown)}


def _times(count: int) -> str:
    return "never" if count == 0 else "once" if count == 1 else f"{count} times"
