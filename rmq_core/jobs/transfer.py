"""Export and import: read stored jobs page by page, and write them in chunks with the progress of the import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rmq_core.envelope import codec
from rmq_core.envelope.export_record import StoredMessage, StoredPage, unmarked
from rmq_core.errors import ConfigurationError, PayloadError
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.jobs.job import check_id, read_options
from rmq_core.jobs.state import GROUP, JobsEngine, prepare
from rmq_core.kernel.transfer import KEEP_MS, PAGE, Cursor, ImportEntry, list_page, progress_key, states_only, stored

STATES = ("leased", "delayed", "ready", "dead")


def export_page(engine: JobsEngine, state: str, cursor: Cursor = ()) -> Exchange[StoredPage]:
    """Return a page of the stored jobs in one state, oldest first.

    cursor: that of the page before; () for the first page. Changes nothing.
    """
    states_only("jobs", state, STATES)
    if state == "leased":
        return (yield from _held_page(engine, cursor))
    if state == "delayed":
        return (yield from _delayed_page(engine, cursor))
    if state == "dead":
        return (yield from list_page(engine.keys.dead, "right", state, cursor))
    return (yield from _entries_page({"stream": engine.keys.ready, "paused": engine.keys.paused}, state, GROUP, cursor))


def import_entry(message: StoredMessage) -> ImportEntry:
    """Return a job as `import_chunk` takes it. Raises PayloadError if the queue cannot store it."""
    own = codec.split(message.envelope)
    try:
        check_id(own.id)
        if own.headers:
            read_options(own.headers)
    except (ConfigurationError, ValueError) as error:
        raise PayloadError(f"it is no job: {error}") from None
    envelope = unmarked(message.envelope) if own.history else message.envelope
    state = message.state if message.state in {"delayed", "dead"} else "ready"
    return ImportEntry(state, (message.due_ms or 0, own.id, envelope), len(envelope))


def import_chunk(
    engine: JobsEngine, name: str, before: str, after: str, entries: Sequence[ImportEntry]
) -> Exchange[None]:
    """Store entries in one state, at most 1,000, and the progress of the import `name`; do both or neither.

    before: the progress so far. after: the progress with these entries. Raises QueueFull if they do not fit,
    ImportConflict if the progress is not `before`.
    """
    if not engine.prepared:
        yield from prepare(engine)
    call = script(
        "jobs/import", engine.keys, engine.settings, progress=progress_key(engine, name), before=before, after=after,
        keep_ms=KEEP_MS, state=entries[0].state if entries else "ready",
        jobs=[value for entry in entries for value in entry.args],
    )  # fmt: skip
    yield from stored(engine, name, call)


def _entries_page(keys: Mapping[str, bytes], state: str, group: bytes, cursor: Cursor) -> Exchange[StoredPage]:
    found = yield script(
        "kernel/page_of_entries", **keys, group=group, last=cursor[0] if cursor else "", most=PAGE, field="e"
    )
    return StoredPage([StoredMessage(state, envelope) for envelope in found[1::2]], (found[-2],) if found else None)


def _delayed_page(engine: JobsEngine, cursor: Cursor) -> Exchange[StoredPage]:
    last, score = cursor or (b"", "0")
    moved, names, scores, envelopes = yield script("jobs/later", engine.keys, most=PAGE, last=last, last_score=score)
    found = [
        StoredMessage("delayed", envelope, int(float(due)))
        for envelope, due in zip(envelopes, scores, strict=True)
        if envelope
    ]
    return StoredPage(found, (names[-1], scores[-1]) if names else None, moved == 1)


def _held_page(engine: JobsEngine, cursor: Cursor) -> Exchange[StoredPage]:
    """Return a page of the jobs that workers hold; then those of the leases that the first page found follow."""
    keys = engine.keys
    if not cursor:
        cursor = ((yield script("jobs/stats", keys, group=GROUP, shown=1, listed=0))[7], -1, b"")
    ids, place, last = cursor
    if place == len(ids):
        return StoredPage([], None)
    if place < 0:
        further, *flat = yield script(
            "kernel/page_of_pending", stream=keys.ready, group=GROUP, last=last, most=PAGE, field="e"
        )
        held = [
            StoredMessage("leased", envelope, None, None, owner.decode())
            for envelope, owner in zip(flat[4::5], flat[3::5], strict=True)
        ]
        return StoredPage(held, (ids, -1, further) if further else (ids, 0, b""))
    name = ids[place].decode()
    page = yield from _entries_page({"stream": keys.lease(name)}, "leased", b"", (last,) if last else ())
    found = [one._replace(lease=name) for one in page.messages]
    return StoredPage(found, (ids, place, *page.cursor) if page.cursor else (ids, place + 1, b""))
