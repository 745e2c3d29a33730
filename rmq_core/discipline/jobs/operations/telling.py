"""The events stream: reports what happens to jobs, for monitoring."""

from __future__ import annotations

from typing import Any, NamedTuple

from rmq_core.discipline.jobs.engine import JobsEngine
from rmq_core.discipline.jobs.operations.managing import entries_of
from rmq_core.exchange import Command, Exchange, Listen


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
    return _text(last[0][0]) if last else "0-0"


def read_events(engine: JobsEngine, position: str, block_ms: int = 5000) -> Exchange[list[JobEvent]]:
    """Return the events after a position. Wait for the first one; return [] when none comes within `block_ms`."""
    words = ("XREAD", "COUNT", 1000, "BLOCK", block_ms, "STREAMS", engine.keys.events, position)
    reply = yield Listen(words, block_ms)
    return [event for entry in entries_of(reply) for event in _events(entry)]


def _events(entry: Any) -> list[JobEvent]:
    position, flat = _text(entry[0]), [_text(item) for item in entry[1]]
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    at_ms = int(position.split("-")[0])
    return [
        JobEvent(fields["event"], job_id, at_ms, fields.get("detail", ""), position)
        for job_id in fields["ids"].split(" ")
    ]


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()
