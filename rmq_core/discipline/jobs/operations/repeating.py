"""Repeatable jobs: rules in a hash, their next times in a sorted set. The first client to see a due rule fires it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from rmq_core.discipline.jobs.engine import JobsEngine, prepare, refused
from rmq_core.discipline.jobs.job import check_id, encode_data, encode_options
from rmq_core.discipline.jobs.operations.reading import Tick, tick
from rmq_core.discipline.jobs.recurrence import Cron, Every, Missed, schedule_of, times_to_fire
from rmq_core.envelope import codec
from rmq_core.errors import ConfigurationError
from rmq_core.events import Operation
from rmq_core.exchange import Command, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.policy import Backoff, whole


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
    schedule, left = schedule_of({**rule, "anchor_ms": due_ms}), _left(rule, int(fired or 0))
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
    start_ms = now_ms if repeat.start is None else _ms(repeat.start)
    if start_ms <= now_ms:
        return repeat.schedule.after(now_ms)
    return start_ms if isinstance(repeat.schedule, Every) else repeat.schedule.after(start_ms - 1)


def _rule(name: str, data: Any, repeat: Repeat) -> dict[str, Any]:
    rule: dict[str, Any] = {"name": name, "data": data, "missed": repeat.missed.most, **repeat.schedule.described()}
    if repeat.end is not None:
        rule["end_ms"] = _ms(repeat.end)
    if repeat.limit is not None:
        rule["limit"] = whole("limit", repeat.limit, minimum=1)
    options = encode_options(name, repeat.attempts, repeat.backoff).decode()
    return {**rule, "headers": options}


def _body(engine: JobsEngine, key: str, rule: dict[str, Any], at_ms: int) -> bytes:
    kind, data = encode_data(rule["data"], engine.config)
    return codec.body(f"{key}@{at_ms}", kind, data, rule["headers"].encode())


def _left(rule: dict[str, Any], fired: int) -> int | None:
    return None if "limit" not in rule else max(0, rule["limit"] - fired)


def _repeatable(key: bytes, next_ms: bytes, text: bytes, fired: bytes) -> RepeatableJob:
    rule = json.loads(text)
    return RepeatableJob(key.decode(), rule["name"], rule["data"], rule, int(float(next_ms)), int(fired or 0))


def _ms(at: datetime) -> int:
    if at.tzinfo is None:
        raise ConfigurationError(f"start and end must have a time zone; {at!r} has none")
    return round(at.timestamp() * 1000)
