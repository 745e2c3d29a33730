"""Repeatable jobs: when they fire, their rules, and waiting for the next due time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple, Protocol

from rmq_core.envelope import codec
from rmq_core.errors import ConfigurationError
from rmq_core.events import Operation
from rmq_core.exchange import Command, Exchange, Listen, blocks_for
from rmq_core.exchange.scripts import script
from rmq_core.jobs.inspecting import Tick, tick
from rmq_core.jobs.job import check_id, encode_data, encode_options
from rmq_core.jobs.state import JobsEngine, prepare, refused
from rmq_core.policy import Backoff, milliseconds, whole

_LONGEST_MS = 5000
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


class Repeat(NamedTuple):
    """When and how a job repeats.

    schedule: Every(...) or Cron(...). start, end: the rule fires neither before `start` nor after `end`. limit: how
    often it fires at most. missed: how to treat times that passed while no client checked the rule. attempts, backoff:
    as for `add`.
    """

    schedule: Every | Cron
    start: datetime | None = None
    end: datetime | None = None
    limit: int | None = None
    missed: Missed = Missed.FIRE_ONCE
    attempts: int | None = None
    backoff: Backoff | None = None


class RepeatableJob(NamedTuple):
    """A stored rule: `next_ms` is the time when it fires next, `fired` how often it has fired."""

    key: str
    name: str
    data: Any
    rule: dict[str, Any]
    next_ms: int
    fired: int


def upsert_repeatable_job(
    engine: JobsEngine, name: str, data: Any = None, *, repeat: Repeat, key: str | None = None
) -> Exchange[str]:
    """Set a rule that adds a job repeatedly, and return its key.

    A different rule under the same key is replaced; an equal one keeps its schedule. key: the name of the rule, the
    job's name when None. `data` must be a JSON value.
    """
    key = check_id(name if key is None else key)
    encode_data(data, engine.config)
    if isinstance(data, bytes):
        raise ConfigurationError("data of a repeatable job must be a JSON value, not bytes")
    encode_options(name, repeat.attempts, repeat.backoff)
    if not engine.prepared:
        yield from prepare(engine)
    keys, now = engine.keys, (yield from tick(engine)).now_ms
    first = _first(repeat, now)
    rule = _rule(name, data, repeat)
    text = json.dumps(rule, sort_keys=True, ensure_ascii=False)
    reply = yield script("jobs/rule_set", keys, rules=keys.repeat, key=key, rule=text, first_ms=first)
    if reply not in {b"set", b"kept"}:
        raise refused("upsert_repeatable_job", reply)
    return key


def get_repeatable_jobs(engine: JobsEngine, limit: int = 100) -> Exchange[list[RepeatableJob]]:
    """Return the rules that fire next, at most `limit` of them."""
    most = whole("limit", limit, minimum=1)
    found = yield script("jobs/rules", engine.keys, rules=engine.keys.repeat, most=most)
    return [_repeatable(*entry) for entry in found]


def remove_repeatable(engine: JobsEngine, key: str) -> Exchange[bool]:
    """Delete a rule; the jobs that it added remain. Return False when there is no such rule."""
    return bool((yield script("jobs/rule_drop", engine.keys, rules=engine.keys.repeat, key=check_id(key))))


def promote(engine: JobsEngine) -> Exchange[Tick]:
    """Do all due work once: promote delayed jobs, reclaim expired leases, fire repeatable jobs."""
    if not engine.prepared:
        yield from prepare(engine)
    seen = yield from tick(engine)
    for key, due_ms in seen.rules:
        yield from _fire(engine, key, due_ms, seen.now_ms)
    return seen


def _fire(engine: JobsEngine, key: str, due_ms: int, now_ms: int) -> Exchange[None]:
    keys = engine.keys
    text = yield Command(("HGET", keys.repeat, key))
    fired = yield Command(("HGET", keys.fired, key))
    if text is None:
        return
    rule = json.loads(text)
    schedule = schedule_of({**rule, "anchor_ms": due_ms})
    left = max(0, rule["limit"] - int(fired or 0)) if "limit" in rule else None
    times = times_to_fire(schedule, due_ms, now_ms, Missed(rule["missed"]))
    times = [at for at in times if at <= rule.get("end_ms", at)][:left]
    next_ms: int | str = schedule.after(now_ms)
    if next_ms > rule.get("end_ms", next_ms) or (left is not None and len(times) >= left):
        next_ms = ""
    reply = yield script(
        "jobs/rule_fire", keys, rules=keys.repeat, key=key, rule=text, present_ms=due_ms, next_ms=next_ms,
        bodies=[_body(engine, key, rule, at) for at in times],
    )  # fmt: skip
    if not reply.startswith((b"fired", b"other")):
        raise refused("firing a repeatable job", reply)
    engine.state(Operation.PUBLISH, int(reply[6:] or 0) if reply.startswith(b"fired") else 0)


def _first(repeat: Repeat, now_ms: int) -> int:
    start_ms = now_ms if repeat.start is None else _bound_ms(repeat.start)
    if start_ms <= now_ms:
        return repeat.schedule.after(now_ms)
    return start_ms if isinstance(repeat.schedule, Every) else repeat.schedule.after(start_ms - 1)


def _rule(name: str, data: Any, repeat: Repeat) -> dict[str, Any]:
    rule: dict[str, Any] = {"name": name, "data": data, "missed": repeat.missed.most, **repeat.schedule.described()}
    if repeat.end is not None:
        rule["end_ms"] = _bound_ms(repeat.end)
    if repeat.limit is not None:
        rule["limit"] = whole("limit", repeat.limit, minimum=1)
    options = encode_options(name, repeat.attempts, repeat.backoff).decode()
    return {**rule, "headers": options}


def _body(engine: JobsEngine, key: str, rule: dict[str, Any], at_ms: int) -> bytes:
    kind, data = encode_data(rule["data"], engine.config)
    return codec.body(f"{key}@{at_ms}", kind, data, rule["headers"].encode())


def _repeatable(key: bytes, next_ms: bytes, text: bytes, fired: bytes) -> RepeatableJob:
    rule = json.loads(text)
    return RepeatableJob(key.decode(), rule["name"], rule["data"], rule, int(float(next_ms)), int(fired or 0))


def _bound_ms(at: datetime) -> int:
    if at.tzinfo is None:
        raise ConfigurationError(f"start and end must have a time zone; {at!r} has none")
    return round(at.timestamp() * 1000)


def promote_and_wait(engine: JobsEngine) -> Exchange[Tick]:
    """Do all due work, then wait for the next due time, at most 5 s. A new, earlier due time ends the wait."""
    seen = yield from promote(engine)
    if seen.promoted < 1000:  # else more are due
        block = _LONGEST_MS if seen.next_ms is None else max(1, min(_LONGEST_MS, seen.next_ms - seen.now_ms))
        yield Listen(("BLPOP", engine.keys.alarm, blocks_for(block)), block)
    return seen
