"""Removes a job that nobody has begun."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.jobs.engine import JobsEngine, refused
from rmq_core.discipline.jobs.job import check_id
from rmq_core.discipline.jobs.keys import GROUP
from rmq_core.discipline.jobs.operations.adding import job_digest, key_digest
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.observe.fact import Act
from rmq_core.queue.choosing import id_of
from rmq_core.queue.moving import PAGE


def cancel(engine: JobsEngine, message_id: str, *, dedup_key: str | bytes | None = None) -> Exchange[bool]:
    """Remove a delayed job, or a ready one that no worker and no lease holds; return False when it is neither.

    Looks through the ready jobs, the oldest first; of several with this id it removes one. Its id can be added again. A
    deduplication key that `publish` named is not stored with the job: pass it as `dedup_key`, to free it too.
    """
    gone = yield from _cancelled(engine, "jobs/cancel", message_id, dedup_key, job_id=check_id(message_id))
    if not gone and (entry := (yield from _ready_entry(engine, message_id))) is not None:
        gone = yield from _cancelled(engine, "jobs/cancel_ready", message_id, dedup_key, group=GROUP, entry=entry)
    return gone


def cancel_delayed(engine: JobsEngine, job_id: str) -> Exchange[bool]:
    """Delete a job whose delay (or backoff) is not over; its id can be added again. Return False if there is none."""
    return (yield from _cancelled(engine, "jobs/cancel", job_id, None, job_id=check_id(job_id)))


def _cancelled(
    engine: JobsEngine, name: str, named: str, dedup_key: str | bytes | None, **about: Any
) -> Exchange[bool]:
    keys = engine.keys
    another = keys.unique(b"" if dedup_key is None else key_digest(dedup_key))
    reply = yield script(name, keys, marker=keys.unique(job_digest(named)), another=another, **about)
    if reply not in {b"cancelled", b"missing"}:
        raise refused("cancel", reply)
    engine.state(Act.CANCEL, int(reply == b"cancelled"), ids=[named])
    return bool(reply == b"cancelled")


def _ready_entry(engine: JobsEngine, job_id: str) -> Exchange[bytes | None]:
    """Return the entry of the stream that holds a ready job of this id; None if there is none."""
    keys, last = engine.keys, ""
    while found := (
        yield script(
            "pages/entries", stream=keys.ready, paused=keys.paused, group=GROUP, last=last, most=PAGE, field="e"
        )
    ):
        for entry, envelope in zip(found[::2], found[1::2], strict=True):
            if id_of(envelope) == job_id:
                return bytes(entry)
        last = found[-2]
    return None
