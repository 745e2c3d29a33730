"""Operations for operators: redrive, purge, pause, cancel, search."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from rmq_core.envelope.matching import Match, chosen_by
from rmq_core.envelope.payloads import key_digest, one_line
from rmq_core.errors import ConfigurationError, Unsupported
from rmq_core.events import Operation
from rmq_core.exchange import Call, Exchange, number_after
from rmq_core.exchange.scripts import script
from rmq_core.jobs.inspecting import held_by, stats
from rmq_core.jobs.job import check_id
from rmq_core.jobs.publishing import job_digest
from rmq_core.jobs.reclaiming import expire_lease
from rmq_core.jobs.state import GROUP, JobsEngine, prepare, refused
from rmq_core.jobs.transfer import STATES, export_page
from rmq_core.kernel.dead_reasons import reasons_in
from rmq_core.kernel.selecting import (
    Changes,
    Place,
    Some,
    change_chosen,
    discard_chosen,
    drop_chosen,
    id_of,
    redrive_all,
    search_pages,
)
from rmq_core.kernel.settling import end_each
from rmq_core.kernel.transfer import PAGE
from rmq_core.observe.fact import Act
from rmq_core.policy import whole
from rmq_core.reports import OnProgress, ReasonGroup, SearchPage, SettleReport


def search(engine: JobsEngine, target: str, where: Match, *, after: str | None = None) -> Exchange[SearchPage]:
    """Look through one page of the `ready`, `delayed`, `leased` or `dead` jobs; return those that meet the conditions.

    after: what the last step returned, None for the first one. Repeat it until `after` is None.
    """
    return (yield from search_pages(engine, target, where, after, states=STATES, page_of=export_page, stats=stats))


def dead_reasons(engine: JobsEngine, *, progress: OnProgress | None = None) -> Exchange[list[ReasonGroup]]:
    """Group all dead letters by the reasons of their failures, the largest group first.

    Numbers, hex ids and UUIDs are replaced by `#`. progress: called after each page; False stops the count there.
    """
    return (yield from reasons_in(engine.keys.dead, progress))


def discard(engine: JobsEngine, message_ids: Iterable[str]) -> Exchange[int]:
    """Delete the dead letters with these ids; return how many. Of several with one id, the newest are deleted."""
    done = yield from discard_chosen(Place(engine.keys.dead, "left"), message_ids)
    engine.state(Act.DISCARD, done.deleted, ids=done.ids)
    return done.deleted


def redrive_where(engine: JobsEngine, where: Match, changes: Changes) -> Exchange[int]:
    """Move dead letters that meet the conditions back to the stream, the oldest first; return how many."""

    def change(some: Some) -> Call:
        return script(
            "jobs/redrive_chosen", engine.keys, engine.settings, first=some.first, last=some.last, letters=some.entries
        )

    return (yield from change_chosen(Place(engine.keys.dead, "right"), chosen_by(where), change, changes))


def purge_where(engine: JobsEngine, where: Match, changes: Changes) -> Exchange[int]:
    """Delete the dead letters that meet the conditions; return how many."""
    return (yield from drop_chosen(Place(engine.keys.dead, "left"), chosen_by(where), changes))


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
        if where is not None:
            yield from redrive_where(engine, where, changes)
        else:
            call = partial(script, "jobs/redrive", engine.keys, engine.settings)
            yield from redrive_all(call, changes)
    finally:
        engine.state(Operation.REDRIVE, changes.changed)
        engine.state(Act.REDRIVE, changes.changed)
    return changes.changed


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
        count = number_after(b"removed ", (yield script("jobs/purge", engine.keys, which=which, group=GROUP)))
        removed += count
        if not count or which != "ready":
            return removed


def pause(engine: JobsEngine, *, reason: str | None = None) -> Exchange[None]:
    """Stop handing out jobs; adding and settling go on, and workers finish the jobs that they have fetched.

    Claims and workers get nothing until `resume`. A worker that waits in a server with XREADGROUP CLAIM (Redis 8.6) may
    still get jobs of a worker that died, within 5 s of the pause. reason: for those who see the queue paused; its first
    200 characters are kept in the history.
    """
    yield from _set_pause(engine, "1")
    engine.state(Act.PAUSE, reason=one_line(reason))


def resume(engine: JobsEngine) -> Exchange[None]:
    """Hand out jobs again. Workers notice it within a second, claims that wait within 5 s."""
    yield from _set_pause(engine, "0")
    engine.state(Act.RESUME)


def expire_leases(engine: JobsEngine, owner: str, *, reason: str | None = None) -> Exchange[SettleReport]:
    """Reclaim all leases that an owner holds now, as `expire_lease` does; an attempt of each job is counted.

    The report counts the jobs of all. Leases that end meanwhile, or that another owner takes over, are left alone; what
    the owner claims meanwhile stays. reason: for the history of the jobs. Workers hold jobs without a lease.
    """
    held = yield from held_by(engine, owner)
    return (yield from end_each(held, partial(expire_lease, engine, if_owner=owner, reason=reason)))


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


def _set_pause(engine: JobsEngine, wanted: str) -> Exchange[None]:
    if not engine.prepared:
        yield from prepare(engine)
    yield script("jobs/pause", engine.keys, group=GROUP, wanted=wanted)


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
    page = partial(script, "kernel/page_of_entries", stream=keys.ready, paused=keys.paused, group=GROUP, field="e")
    while found := (yield page(last=last, most=PAGE)):
        for entry, envelope in zip(found[::2], found[1::2], strict=True):
            if id_of(envelope) == job_id:
                return bytes(entry)
        last = found[-2]
    return None
