"""When a queue holds enough: a pure decision on what a peek returned, and the words a sensor reports it in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypedDict

from rmq_core import ConfigurationError

if TYPE_CHECKING:
    from rmq_core import Backlog, QueueStats

Counted = Literal["ready", "dead", "depth"]


class BacklogReport(TypedDict):
    """What a sensor returns, in every mode: constant in size, and naming no message."""

    queue: str
    ready: int
    oldest_age: float | None


@dataclass(frozen=True, slots=True)
class Threshold:
    """Enough is `min_messages` ready ones, or an oldest one of `max_age` seconds, whichever comes first."""

    min_messages: int = 1
    max_age: float | None = None

    @classmethod
    def of(cls, min_messages: int, max_age: timedelta | float | None) -> Threshold:
        """Checked: `ConfigurationError` for a threshold that could never be met or always is."""
        if type(min_messages) is not int or min_messages < 1:  # not isinstance: True is an int
            raise ConfigurationError(f"`min_messages` must be an integer of at least 1, not {min_messages!r}")
        age = max_age.total_seconds() if isinstance(max_age, timedelta) else max_age
        if age is not None and not (type(age) in (int, float) and age > 0):  # written so that NaN fails
            raise ConfigurationError(f"`max_age` must be a positive number of seconds or a timedelta, not {max_age!r}")
        return cls(min_messages, age)

    def met_by(self, backlog: Backlog) -> bool:
        """Whether there is enough work to go on."""
        if backlog.ready >= self.min_messages:
            return True
        return self.max_age is not None and backlog.oldest_age is not None and backlog.oldest_age >= self.max_age


def counted(count: Counted, stats: QueueStats) -> int:
    """How many messages of a kind a queue holds; `depth` is all that is still to be done."""
    if count == "dead":
        return stats.dead
    return stats.ready if count == "ready" else stats.ready + stats.delayed + stats.leased


def report(queue: str, backlog: Backlog) -> BacklogReport:
    """The XCom value of a sensor that is done."""
    return {"queue": queue, "ready": backlog.ready, "oldest_age": backlog.oldest_age}
