"""Export and import: read stored messages page by page, and write them in chunks with the progress of the import."""

from __future__ import annotations

from collections.abc import Sequence

from rmq_core.discipline.reliable.config import DISCIPLINE
from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.operations.inspecting import page_of_workers
from rmq_core.envelope import codec
from rmq_core.envelope.payloads import SHAPED
from rmq_core.envelope.stored import StoredMessage, StoredPage, unmarked
from rmq_core.errors import PayloadError
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.queue.moving import (
    KEEP_MS,
    Cursor,
    ImportEntry,
    list_page,
    must_drop,
    progress_key,
    states_only,
    stored,
)
from rmq_core.queue.registry import ready

STATES = ("leased", "ready", "dead")


def export_page(engine: ReliableEngine, state: str, cursor: Cursor = ()) -> Exchange[StoredPage]:
    """Return a page of the stored messages in one state, oldest first.

    cursor: that of the page before; () for the first page. Changes nothing.
    """
    states_only(DISCIPLINE, state, STATES)
    if state == "leased":
        return (yield from _held_page(engine, cursor))
    key = engine.keys.queue if state == "ready" else engine.keys.dead
    return (yield from list_page(key, "right", state, cursor))


def import_entry(engine: ReliableEngine, message: StoredMessage, drop: frozenset[str] = frozenset()) -> ImportEntry:
    """Return a message as `import_chunk` takes it. Raises Unsupported or PayloadError if the queue cannot store it."""
    del engine
    must_drop(DISCIPLINE, {"delays": message.state == "delayed"}, drop)
    own = codec.split(message.envelope)
    if own.kind == "j" and own.payload[:1] not in SHAPED:
        raise PayloadError("payload is a JSON scalar, which only jobs store as it is")
    envelope = unmarked(message.envelope) if own.history else message.envelope
    return ImportEntry("dead" if message.state == "dead" else "ready", (envelope,), len(envelope))


def import_chunk(
    engine: ReliableEngine, name: str, before: str, after: str, entries: Sequence[ImportEntry]
) -> Exchange[None]:
    """Store entries in one state, at most 1,000, and the progress of the import `name`; do both or neither.

    before: the progress so far. after: the progress with these entries. Raises QueueFull if they do not fit,
    ImportConflict if the progress is not `before`.
    """
    yield from ready(engine, DISCIPLINE)
    call = script(
        "reliable/import", engine.keys, progress=progress_key(engine, name), before=before, after=after,
        keep_ms=KEEP_MS, state=entries[0].state if entries else "ready", max_dead=engine.config.max_dead,
        messages=[value for entry in entries for value in entry.args],
    )  # fmt: skip
    yield from stored(engine, name, call)


def _held_page(engine: ReliableEngine, cursor: Cursor) -> Exchange[StoredPage]:
    """Return a page of the messages of one worker; then the next of the workers that the first page found follows."""
    if not cursor:
        cursor = ((yield from _workers(engine)), 0, ())
    names, place, inner = cursor
    if place == len(names):
        return StoredPage([], None)
    page = yield from list_page(engine.keys.processing(names[place]), "right", "leased", inner)
    found = [one._replace(lease=names[place], owner=names[place]) for one in page.messages]
    return StoredPage(found, (names, place, page.cursor) if page.cursor else (names, place + 1, ()), page.moved)


def _workers(engine: ReliableEngine) -> Exchange[list[str]]:
    names: list[str] = []
    while page := (yield from page_of_workers(engine, len(names))):
        names += page
    return names
