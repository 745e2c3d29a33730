"""The operations for operators (redrive, purge), and those that read the results of jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple

from rmq_core.discipline.jobs.engine import JobsEngine, prepare, refused
from rmq_core.discipline.jobs.job import Job, check_id
from rmq_core.discipline.jobs.keys import GROUP
from rmq_core.discipline.jobs.operations.selecting import purge_where, redrive_where
from rmq_core.envelope.matching import Match
from rmq_core.errors import ConfigurationError, JobFailed, MalformedMessage, Unsupported
from rmq_core.events import Operation
from rmq_core.exchange import Call, Command, Exchange, Listen
from rmq_core.exchange.scripts import script
from rmq_core.observe.fact import Act
from rmq_core.policy import milliseconds, whole
from rmq_core.queue.choosing import Changes
from rmq_core.reports import OnProgress

_LONGEST_MS = 5000


class JobResult(NamedTuple):
    """The outcome of a job: `value` is its return value; `error` is the reason why it became a dead letter."""

    value: Any
    error: str | None = None


def redrive(
    engine: JobsEngine,
    max_messages: int | None = None,
    *,
    where: Match | None = None,
    progress: OnProgress | None = None,
) -> Exchange[int]:
    """Move dead letters back to the stream, oldest first, with a fresh budget of attempts. Return how many.

    where: only those that meet these conditions. progress: called after each step; the redrive ends there if it returns
    False.
    """
    left = None if max_messages is None else whole("max_messages", max_messages, minimum=1)
    changes = Changes(left, progress)
    if not engine.prepared:
        yield from prepare(engine)
    try:
        yield from redrive_where(engine, where, changes) if where is not None else _redrive_all(engine, changes)
    finally:
        engine.state(Operation.REDRIVE, changes.changed)
        engine.state(Act.REDRIVE, changes.changed)
    return changes.changed


def _redrive_all(engine: JobsEngine, changes: Changes) -> Exchange[None]:
    while not changes.over:
        most = 1000 if changes.left is None else min(1000, changes.left)
        call = script("jobs/redrive", engine.keys, engine.settings, most=most)
        count = _count(call, (yield call), b"redriven ")
        if not count:
            break
        changes.add(count)


def purge(
    engine: JobsEngine, which: str, *, where: Match | None = None, progress: OnProgress | None = None
) -> Exchange[int]:
    """Delete the `ready` jobs that no worker or lease holds, the `delayed` or the `dead` ones. Return how many.

    where: only the dead letters that meet these conditions; Unsupported for other jobs. progress: called after each
    step of a purge with conditions, which ends there if it returns False.
    """
    if which not in {"ready", "delayed", "dead"}:
        raise ConfigurationError(f"which must be 'ready', 'delayed' or 'dead', not {which!r}")
    if where is not None:
        if which != "dead":
            raise Unsupported("jobs", f"purge of {which} jobs by conditions", ("leased",))
        removed = yield from purge_where(engine, where, Changes(progress=progress))
    else:
        removed = yield from _purge(engine, which)
    engine.state(Act.PURGE, reason=f"{removed} of {which}")
    return removed


def _purge(engine: JobsEngine, which: str) -> Exchange[int]:
    removed = 0
    while True:
        call = script("jobs/purge", engine.keys, which=which, group=GROUP)
        count = _count(call, (yield call), b"removed ")
        removed += count
        if not count or which != "ready":
            return removed


def pause(engine: JobsEngine) -> Exchange[None]:
    """Stop handing out jobs; adding and settling go on, and workers finish the jobs that they have fetched.

    Claims and workers get nothing until `resume`. A worker that waits in a server with XREADGROUP CLAIM (Redis 8.6) may
    still get jobs of a worker that died, within 5 s of the pause.
    """
    yield from _set_pause(engine, "1")
    engine.state(Act.PAUSE)


def resume(engine: JobsEngine) -> Exchange[None]:
    """Hand out jobs again. Workers notice it within a second, claims that wait within 5 s."""
    yield from _set_pause(engine, "0")
    engine.state(Act.RESUME)


def run_now(engine: JobsEngine, message_id: str) -> Exchange[bool]:
    """End the delay, or the backoff, of a job, so that it is ready now; return False if none of this id waits."""
    call = script("jobs/run_now", engine.keys, engine.settings, job_id=check_id(message_id))
    if not engine.prepared:
        yield from prepare(engine)
    reply = yield call
    if reply not in {b"ready", b"missing"}:
        raise refused("run_now", reply)
    engine.state(Act.RUN_NOW, int(reply == b"ready"), ids=[message_id])
    return bool(reply == b"ready")


def _set_pause(engine: JobsEngine, stop: str) -> Exchange[None]:
    if not engine.prepared:
        yield from prepare(engine)
    yield script("jobs/pause", engine.keys, group=GROUP, stop=stop)


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


def entries_of(reply: Any) -> list[Any]:
    """Return the entries in a reply to a read of one stream, whatever shape the protocol gives the reply."""
    if not reply:
        return []
    if isinstance(reply, dict):
        reply = list(reply.items())
    if not isinstance(reply[0], list | tuple):
        return list(reply[1])
    entries: list[Any] = reply[0][1]
    return entries


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


def _count(call: Call, reply: bytes, prefix: bytes) -> int:
    if not reply.startswith(prefix):
        raise refused(call.script.name, reply)
    return int(reply[len(prefix) :])
