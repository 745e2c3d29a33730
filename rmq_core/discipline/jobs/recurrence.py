"""When a repeatable job fires: `Every` and `Cron`, and how to treat missed times. Pure: no clock, no IO."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Protocol

from rmq_core.errors import ConfigurationError
from rmq_core.policy import milliseconds, whole

ON_TIME_MS = 10_000
"""A time that is noticed at most this late counts as on time: schedules promise an accuracy of seconds, not better."""


class Schedule(Protocol):
    """Points in time, in ms."""

    def after(self, at_ms: int) -> int:
        """Return the first point later than `at_ms`."""
        ...  # pragma: no cover

    def until(self, at_ms: int) -> int:
        """Return the last point not later than `at_ms`."""
        ...  # pragma: no cover

    def described(self) -> dict[str, Any]:
        """Return the fields that describe the schedule in a rule."""
        ...  # pragma: no cover


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed period, in seconds or as timedelta. `anchor_ms`: a time at which it fires, None until the rule is set."""

    period: timedelta | float
    anchor_ms: int | None = None

    def __post_init__(self) -> None:
        milliseconds("period", self.period, minimum=0.001)

    @property
    def period_ms(self) -> int:
        """The period in ms."""
        return milliseconds("period", self.period)

    def after(self, at_ms: int) -> int:
        """Return the first time later than `at_ms`."""
        if self.anchor_ms is None:
            return at_ms + self.period_ms
        return self.until(at_ms) + self.period_ms

    def until(self, at_ms: int) -> int:
        """Return the last time not later than `at_ms`."""
        anchor = self.anchor_ms or 0
        return anchor + (at_ms - anchor) // self.period_ms * self.period_ms

    def described(self) -> dict[str, Any]:
        """Return the fields that describe the schedule in a rule."""
        return {"every_ms": self.period_ms}


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of five fields, or six with the seconds first, in a time zone (an IANA name).

    Needs `rmq[jobs]`. Times that a clock change skips fire right after it; those that it repeats fire once.
    """

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        try:
            _zone(self.tz)
        except (KeyError, ValueError, OSError) as error:
            raise ConfigurationError(
                f"tz must be the name of a time zone such as 'Europe/Warsaw', not {self.tz!r}"
            ) from error
        if len(self.expression.split()) not in {5, 6} or not _croniter().is_valid(
            self.expression, second_at_beginning=self._seconds
        ):
            raise ConfigurationError(f"expression {self.expression!r} is no cron expression of five or six fields")
        try:
            self._from(0).get_next()
        except ValueError as error:
            raise ConfigurationError(f"expression {self.expression!r} never fires: no date in 50 years fits") from error

    @property
    def _seconds(self) -> bool:
        return len(self.expression.split()) == 6

    def after(self, at_ms: int) -> int:
        """Return the first time later than `at_ms`."""
        times = self._from(at_ms)
        while self._repeated(found := _ms(times.get_next(datetime))):
            continue
        return found

    def until(self, at_ms: int) -> int:
        """Return the last time not later than `at_ms`."""
        times = self._from(at_ms + 1)
        while self._repeated(found := _ms(times.get_prev(datetime))):
            continue
        return found

    def _repeated(self, at_ms: int) -> bool:
        """Return whether a clock change repeats this local time, this is its repetition, and the rule names hours."""
        at = datetime.fromtimestamp(at_ms / 1000, _zone(self.tz))
        return bool(at.fold) and not self.expression.split()[-4].startswith("*")

    def _from(self, at_ms: int) -> Any:
        start = datetime.fromtimestamp(at_ms / 1000, _zone(self.tz))
        return _croniter()(self.expression, start, second_at_beginning=self._seconds)

    def described(self) -> dict[str, Any]:
        """Return the fields that describe the schedule in a rule."""
        return {"cron": self.expression, "tz": self.tz}


@dataclass(frozen=True, slots=True)
class Missed:
    """How to treat times that passed while no client checked the rule: `SKIP`, `FIRE_ONCE` or `fire_all(most)`."""

    most: int

    SKIP: ClassVar[Missed]
    FIRE_ONCE: ClassVar[Missed]

    @staticmethod
    def fire_all(most: int = 100) -> Missed:
        """Fire for each missed time, but for no more than the latest `most`."""
        return Missed(whole("most", most, minimum=2))


Missed.SKIP = Missed(0)
Missed.FIRE_ONCE = Missed(1)


def times_to_fire(schedule: Schedule, due_ms: int, now_ms: int, missed: Missed) -> list[int]:
    """Return those times from `due_ms` to `now_ms` for which a job is added, oldest first."""
    latest = max(due_ms, schedule.until(now_ms))
    if missed.most == 0:
        return [latest] if now_ms - latest <= ON_TIME_MS else []
    times = [latest]
    while len(times) < missed.most and (earlier := schedule.until(times[-1] - 1)) >= due_ms:
        times.append(earlier)
    return times[::-1]


def schedule_of(rule: dict[str, Any]) -> Schedule:
    """Return the schedule that a rule describes."""
    if "cron" in rule:
        return Cron(rule["cron"], rule["tz"])
    return Every(rule["every_ms"] / 1000, rule["anchor_ms"])


def _zone(name: str) -> Any:
    from zoneinfo import ZoneInfo  # loads much that only cron rules need

    return ZoneInfo(name)


def _croniter() -> Any:
    try:
        from croniter import croniter  # an optional dependency, which only cron rules need
    except ImportError as error:
        raise ConfigurationError("cron expressions need croniter: pip install 'rmq[jobs]'") from error
    return croniter


def _ms(at: datetime) -> int:
    return round(at.astimezone(UTC).timestamp() * 1000)
