"""Export and import: read the entries of a stream page by page, and add them with the progress of the import."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from rmq_core.discipline.streams.engine import StreamEngine
from rmq_core.discipline.streams.messages import FIELD, envelope
from rmq_core.discipline.streams.operations.publishing import begin
from rmq_core.envelope import codec
from rmq_core.envelope.stored import StoredMessage, StoredPage
from rmq_core.errors import PayloadError
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.queue.moving import (
    KEEP_MS,
    PAGE,
    Cursor,
    ImportEntry,
    must_drop,
    progress_key,
    states_only,
    stored,
)

STATES = ("leased", "ready")
_ID = re.compile(r"(\d{1,14})-(\d{1,19})")


def export_page(engine: StreamEngine, state: str, cursor: Cursor = ()) -> Exchange[StoredPage]:
    """Return a page of what the group has to read: `ready` are stale entries and then new ones, `leased` the others.

    cursor: that of the page before; () for the first page. Changes nothing.
    """
    states_only("streams", state, STATES)
    if cursor and cursor[0] == "new":
        return (yield from _new_page(engine, cursor[1]))
    last = cursor[1] if cursor else ""
    further, *flat = yield script(
        "pages/pending", engine.keys, group=engine.config.consumer_group, last=last, most=PAGE, field=FIELD
    )
    stale_ms, found = engine.config.claim_idle_ms, []
    for entry_id, count, idle, owner, data in zip(*(flat[at::5] for at in range(5)), strict=True):
        if (idle >= stale_ms) == (state == "ready"):
            holder = owner.decode() if state == "leased" else None
            found.append(StoredMessage(state, envelope(entry_id.decode(), data, count), None, None, holder))
    after = ("pending", further) if further else ("new", "") if state == "ready" else None
    return StoredPage(found, after)


def import_entry(engine: StreamEngine, message: StoredMessage, drop: frozenset[str] = frozenset()) -> ImportEntry:
    """Return a message as `import_chunk` takes it. Raises Unsupported for what an entry of a stream cannot store."""
    del engine
    states_only("streams", "dead" if message.state == "dead" else "ready", STATES)
    own = codec.split(message.envelope)
    if own.kind != "j" or not isinstance(json.loads(own.payload), dict):
        raise PayloadError("payload must be a dict: a stream holds JSON objects")
    found = _ID.fullmatch(own.id)
    is_entry = bool(found) and int(found[1] if found else 0) == own.enqueued_ms
    keeps_id = is_entry and not {"ids", "times"} <= drop
    parts = {
        "delays": message.state == "delayed", "headers": own.headers, "history": own.history,
        "deliveries": own.deliveries, "ids": not is_entry, "times": not is_entry and own.enqueued_ms,
    }  # fmt: skip
    must_drop("streams", parts, drop)
    return ImportEntry(
        "ready at its id" if keeps_id else "ready", (own.id if keeps_id else "*", own.payload), len(own.payload)
    )


def import_chunk(
    engine: StreamEngine, name: str, before: str, after: str, entries: Sequence[ImportEntry]
) -> Exchange[None]:
    """Add entries, at most 1,000, and store the progress of the import `name`; do both or neither.

    before: the progress so far. after: the progress with these entries. Raises QueueFull if they do not fit,
    ImportConflict if the progress is not `before`, or if entries are to keep ids that are older than the stream's last.
    """
    yield from begin(engine)
    call = script(
        "streams/import", engine.keys, progress=progress_key(engine, name), before=before, after=after,
        keep_ms=KEEP_MS, entries=[value for entry in entries for value in entry.args],
    )  # fmt: skip
    yield from stored(engine, name, call)


def _new_page(engine: StreamEngine, last: str | bytes) -> Exchange[StoredPage]:
    found = yield script(
        "pages/entries", engine.keys, group=engine.config.consumer_group, last=last, most=PAGE, field=FIELD
    )
    pairs = zip(found[::2], found[1::2], strict=True)
    messages = [StoredMessage("ready", envelope(entry_id.decode(), data, 0)) for entry_id, data in pairs]
    return StoredPage(messages, ("new", found[-2]) if found else None)
