"""What became of jobs: their results, waiting for one, and the stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

from rmq_core.errors import JobFailed, MalformedMessage
from rmq_core.exchange import Command, Exchange, Listen, entries_of, text_of
from rmq_core.jobs.job import Job, check_id
from rmq_core.jobs.state import JobsEngine
from rmq_core.policy import milliseconds

_LONGEST_MS = 5000


class JobResult(NamedTuple):
    """The outcome of a job: `value` is its return value; `error` is the reason why it became a dead letter."""

    value: Any
    error: str | None = None


def get_result(engine: JobsEngine, job: Job | str) -> Exchange[JobResult | None]:
    """Return the result of a job, or None. Workers with `store_results` store results, which last for `result_ttl`."""
    found = yield Command(("XRANGE", engine.keys.result(_id(job)), "-", "+", "COUNT", 1))
    return _result(found[0][1]) if found else None


def get_results(engine: JobsEngine, jobs: Iterable[Job | str]) -> Exchange[list[JobResult | None]]:
    """Return the results of several jobs, None for each job without one."""
    names, found = [_id(job) for job in jobs], {}
    for name in names:
        found[name] = yield from get_result(engine, name)
    return [found[name] for name in names]


def wait_for_result(engine: JobsEngine, job: Job | str, timeout: timedelta | float = 30) -> Exchange[Any]:
    """Wait for a job and return its return value. The call blocks in Redis instead of polling.

    Raises JobFailed when the job becomes a dead letter, TimeoutError when there is no result within `timeout`.
    """
    key, left = engine.keys.result(_id(job)), milliseconds("timeout", timeout, minimum=0.001)
    while left > 0:
        block = min(left, _LONGEST_MS)
        reply = yield Listen(("XREAD", "COUNT", 1, "BLOCK", block, "STREAMS", key, "0"), block)
        if reply:
            found = _result(entries_of(reply)[0][1])
            if found.error is not None:
                raise JobFailed(_id(job), found.error)
            return found.value
        left -= block
    raise TimeoutError(f"job {_id(job)!r} has no result yet; does its worker run with store_results?")


def _result(fields: Any) -> JobResult:
    flat = [_bytes(item) for pair in fields.items() for item in pair] if isinstance(fields, dict) else fields
    found = {_bytes(key): _bytes(value) for key, value in zip(flat[::2], flat[1::2], strict=True)}
    try:
        if found[b"state"] == b"completed":
            return JobResult(json.loads(found[b"value"]))
        return JobResult(None, found[b"value"].decode())
    except (KeyError, ValueError) as error:
        raise MalformedMessage("a stored result is damaged") from error


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _id(job: Job | str) -> str:
    return job.id if isinstance(job, Job) else check_id(job)


class JobEvent(NamedTuple):
    """Something that happened to a job.

    event: delayed, waiting (ready again), active, completed, failed, retry or dead. at_ms: when the server recorded it.
    detail: the reason of `failed` and `dead`, the delay in ms of `retry`.
    """

    event: str
    job_id: str
    at_ms: int
    detail: str
    position: str


def events_position(engine: JobsEngine) -> Exchange[str]:
    """Return the position of the latest event, '0-0' when there is none."""
    last = yield Command(("XREVRANGE", engine.keys.events, "+", "-", "COUNT", 1))
    return text_of(last[0][0]) if last else "0-0"


def read_events(engine: JobsEngine, position: str, block_ms: int = 5000) -> Exchange[list[JobEvent]]:
    """Return the events after a position. Wait for the first one; return [] when none comes within `block_ms`."""
    words = ("XREAD", "COUNT", 1000, "BLOCK", block_ms, "STREAMS", engine.keys.events, position)
    reply = yield Listen(words, block_ms)
    return [event for entry in entries_of(reply) for event in _events(entry)]


def _events(entry: Any) -> list[JobEvent]:
    position, flat = text_of(entry[0]), [text_of(item) for item in entry[1]]
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    at_ms = int(position.split("-")[0])
    return [
        JobEvent(fields["event"], job_id, at_ms, fields.get("detail", ""), position)
        for job_id in fields["ids"].split(" ")
    ]
