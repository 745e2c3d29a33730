"""Adds jobs: at once or delayed, with or without deduplication, one or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from rmq_core.envelope import codec
from rmq_core.envelope.codec import Publishable, chunks, each, new_id, nonce
from rmq_core.envelope.payloads import digest, encode_payload, key_digest
from rmq_core.errors import PayloadError, RedisMessageQueueError
from rmq_core.events import Operation
from rmq_core.exchange import Call, Encodable, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.jobs.job import Job, check_id, encode_data, encode_options, plain_headers
from rmq_core.jobs.state import JobsEngine, prepare, refused
from rmq_core.kernel.publishing import publish_chunks, refuse_groups
from rmq_core.policy import Backoff, delay_in_ms, milliseconds
from rmq_core.reports import Published, PublishReport

DedupKey: TypeAlias = str | bytes | Callable[[Any], str]


class NewJob(NamedTuple):
    """A job for `add_bulk`; the fields are the arguments of `add`. unique: add it as `add_unique` does."""

    name: str
    data: Any = None
    delay: timedelta | float | None = None
    attempts: int | None = None
    backoff: Backoff | None = None
    job_id: str | None = None
    unique: bool = False


class JobEntry(NamedTuple):
    """An encoded job, ready to send; `digest` is the digest of its deduplication key.

    named: the caller chose the id and may choose it twice. Such jobs are sent without IDMP (Redis 8.6), with which the
    server would mistake the second job for a resend.
    """

    id: str
    body: bytes
    delay_ms: int = 0
    digest: bytes | None = None
    named: bool = False


def add(
    engine: JobsEngine,
    name: str,
    data: Any = None,
    *,
    delay: timedelta | float | None = None,
    attempts: int | None = None,
    backoff: Backoff | None = None,
    job_id: str | None = None,
) -> Exchange[Job]:
    """Add a job; a resend after a lost reply adds nothing. `data` is any JSON value, str or bytes.

    delay: seconds or timedelta. attempts, backoff: replace the queue's settings. job_id: replaces the generated id. Two
    jobs may have the same id; `add_unique` prevents that.
    """
    new = NewJob(name, data, delay, attempts, backoff, job_id)
    return (yield from _add(engine, new))


def add_unique(
    engine: JobsEngine,
    name: str,
    data: Any = None,
    *,
    job_id: str,
    delay: timedelta | float | None = None,
    attempts: int | None = None,
    backoff: Backoff | None = None,
) -> Exchange[Job]:
    """Add a job, unless one of this id was added within `unique_ttl`: then `accepted` of the returned job is False."""
    new = NewJob(name, data, delay, attempts, backoff, job_id, unique=True)
    return (yield from _add(engine, new))


def add_bulk(engine: JobsEngine, jobs: Iterable[NewJob | Mapping[str, Any]]) -> Exchange[list[Job]]:
    """Add many jobs, in order, in chunks of up to 1,000 jobs and 4 MiB. Each is a NewJob or a dict of its fields.

    Stops at the first chunk that is refused and raises; `report` of the error holds the jobs added before it.
    """
    if not engine.prepared:
        yield from prepare(engine)
    added: list[Job] = []
    pairs = ((new, _entry(engine, new)) for new in map(_new, jobs))
    try:
        for chunk in chunks(pairs, lambda pair: len(pair[1].body)):
            for _, run in groupby(chunk, _way):
                news, entries = zip(*run, strict=True)
                verdicts = yield from _send(engine, entries)
                added += map(_job, news, entries, verdicts)
    except RedisMessageQueueError as error:
        error.report = added
        raise
    return added


def publish(
    engine: JobsEngine,
    payload: Publishable,
    *,
    dedup_key: DedupKey | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
    group: str | None = None,
    priority: int | None = None,
    publication: str | None = None,
    expires: timedelta | float | datetime | None = None,
) -> Exchange[Published]:
    """Add a message, which is a job without a name. Skip it if its `dedup_key` was published within `unique_ttl`."""
    refuse_groups("jobs", group, priority, publication, expires)
    entry = _message(engine, payload, dedup_key, delay, plain_headers(headers))
    if not engine.prepared:
        yield from prepare(engine)
    (accepted,) = yield from _send(engine, [entry])
    return Published(entry.id, accepted)


def publish_many(
    engine: JobsEngine,
    payloads: Iterable[Publishable],
    *,
    dedup_key: Callable[[Any], str] | None = None,
    delay: timedelta | float | None = None,
    headers: Mapping[str, str] | None = None,
    group: str | None = None,
    priority: int | None = None,
    publication: str | None = None,
    expires: timedelta | float | datetime | None = None,
) -> Exchange[PublishReport]:
    """Add messages, in order, in chunks of up to 1,000 messages and 4 MiB.

    Stops at the first chunk that is refused and raises; `report` of the error states what was accepted before it.
    """
    refuse_groups("jobs", group, priority, publication, expires)
    if dedup_key is not None and not callable(dedup_key):
        raise PayloadError("dedup_key must be a callable for publish_many: one key would make all but one a duplicate")
    extra = plain_headers(headers)
    if not engine.prepared:
        yield from prepare(engine)
    entries = each(lambda payload: _message(engine, payload, dedup_key, delay, extra), payloads)
    return (yield from publish_chunks(chunks(entries, lambda entry: len(entry.body)), partial(_publish, engine)))


def forget(engine: JobsEngine, dedup_key: str | bytes) -> Exchange[bool]:
    """Make a deduplication key, or the id of an `add_unique`, usable again at once. Return False if it was free."""
    keys = engine.keys
    named = job_digest(dedup_key) if isinstance(dedup_key, str) else b""
    call = script("jobs/forget", marker=keys.unique(key_digest(dedup_key)), another=keys.unique(named))
    return bool((yield call) == b"forgotten")


def _add(engine: JobsEngine, new: NewJob) -> Exchange[Job]:
    entry = _entry(engine, new)
    if not engine.prepared:
        yield from prepare(engine)
    (accepted,) = yield from _send(engine, [entry])
    return _job(new, entry, accepted)


def _publish(engine: JobsEngine, chunk: Sequence[JobEntry]) -> Exchange[list[str | None]]:
    verdicts = yield from _send(engine, chunk)
    return [entry.id if fresh else None for entry, fresh in zip(chunk, verdicts, strict=True)]


def _way(pair: tuple[NewJob, JobEntry]) -> int:
    """Return the kind of call that adds a job: 2 with deduplication, 1 with a delay or a chosen id, else 0."""
    entry = pair[1]
    return 2 if entry.digest else 1 if entry.delay_ms or entry.named else 0


def _send(engine: JobsEngine, entries: Sequence[JobEntry]) -> Exchange[list[bool]]:
    """Add one chunk. Return for each job whether it was added."""
    call = _call(engine, entries)
    reply = yield call
    word, _, digits = reply.decode().partition(" ")
    if word != "accepted":
        raise refused("adding", reply)
    fresh = digits.count("1") if digits else len(entries)
    engine.state(Operation.PUBLISH, fresh)
    engine.state(Operation.DUPLICATE, len(entries) - fresh)
    return [digit == "1" for digit in digits] if digits else [True] * len(entries)


def _call(engine: JobsEngine, entries: Sequence[JobEntry]) -> Call:
    keys = engine.keys
    jobs: list[Encodable] = []
    digests = [entry.digest for entry in entries if entry.digest is not None]
    if engine.native and not digests and not any(entry.delay_ms or entry.named for entry in entries):
        for entry in entries:
            jobs += entry[:2]
        return script("jobs/add_native", keys, producer=engine.producer, jobs=jobs)
    for entry in entries:
        jobs += (entry.id, entry.delay_ms, entry.body)
    window_ms = milliseconds("unique_ttl", engine.config.unique_ttl) if digests else 0
    return script(
        "jobs/add", keys, engine.settings, markers=[keys.unique(digest) for digest in digests], window_ms=window_ms,
        nonce=nonce(), jobs=jobs,
    )  # fmt: skip


def _new(job: NewJob | Mapping[str, Any]) -> NewJob:
    if isinstance(job, NewJob):
        return job
    try:
        return NewJob(**job)
    except TypeError as error:
        raise PayloadError(f"a job must be a NewJob or a dict of its fields: {error}") from None


def _entry(engine: JobsEngine, new: NewJob) -> JobEntry:
    config = engine.config
    name, value, delay, attempts, backoff, chosen, unique = new
    kind, data = encode_data(value, config)
    named = chosen is not None
    job_id = check_id(chosen or "") if named or unique else new_id()
    digest = job_digest(job_id) if unique else None
    options = encode_options(name, attempts, backoff)
    return JobEntry(job_id, codec.body(job_id, kind, data, options), delay_in_ms(delay), digest, named)


def _message(
    engine: JobsEngine,
    payload: Publishable,
    dedup_key: DedupKey | None,
    delay: timedelta | float | None,
    headers: bytes,
) -> JobEntry:
    config, job_id = engine.config, new_id()
    kind, data = encode_payload(payload, config)
    key = dedup_key(payload) if callable(dedup_key) else dedup_key
    digest = None if key is None else key_digest(key)
    return JobEntry(job_id, codec.body(job_id, kind, data, headers), delay_in_ms(delay), digest)


def _job(new: NewJob, entry: JobEntry, accepted: bool) -> Job:
    return Job(entry.id, new.name, new.data, 1, None, new.attempts, new.backoff, accepted=accepted)


def job_digest(job_id: str) -> bytes:
    return digest("job", job_id.encode())
