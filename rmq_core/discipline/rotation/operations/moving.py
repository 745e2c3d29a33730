"""Export and import: read the ids of a list page by page, and add them in chunks with the progress of the import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rmq_core.discipline.rotation.config import DISCIPLINE
from rmq_core.discipline.rotation.engine import RotationEngine
from rmq_core.discipline.rotation.entries import envelope, id_bytes, new_entry
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
from rmq_core.queue.registry import ready

STATES = ("leased", "ready")
_LETTERS = {"leased": (b"p",), "ready": (b"n", b"l")}


def export_page(engine: RotationEngine, state: str, cursor: Cursor = ()) -> Exchange[StoredPage]:
    """Return a page of the ids that are new or late (`ready`), or in progress (`leased`), in the order of popping.

    cursor: that of the page before; () for the first page. Changes nothing.
    """
    states_only(DISCIPLINE, state, STATES)
    offset, last, dropped = cursor or (0, b"", Counter[bytes]())
    moved, *flat, before = yield script(
        "rotation/entries", engine.keys, offset=offset, most=PAGE, last=last, timeout_s=engine.config.timeout_s
    )
    found = []
    for data, letter, done in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        if done > dropped[data]:
            dropped[data] += 1  # this entry is done, and the rotation will drop it
        elif letter in _LETTERS[state]:
            found.append(StoredMessage(state, envelope(data, late=False)))
    further = (offset + len(flat) // 3, before, dropped) if flat else None
    return StoredPage(found, further, moved == 1)


def import_entry(engine: RotationEngine, message: StoredMessage, drop: frozenset[str] = frozenset()) -> ImportEntry:
    """Return a message as `import_chunk` takes it. Raises Unsupported for what a list of ids cannot store."""
    states_only(DISCIPLINE, "dead" if message.state == "dead" else "ready", STATES)
    own = codec.split(message.envelope)
    if own.kind not in {"s", "b"}:
        raise PayloadError("payload must be a text, which is the id: a rotation queue stores nothing else")
    plain = codec.split(envelope(own.payload, late=False))
    parts = {
        "delays": message.state == "delayed", "headers": own.headers, "history": own.history,
        "deliveries": own.deliveries, "times": own.enqueued_ms, "ids": own.id != plain.id,
    }  # fmt: skip
    must_drop(DISCIPLINE, parts, drop)
    entry = new_entry(id_bytes(own.payload, engine.config))
    return ImportEntry("ready", (entry,), len(entry))


def import_chunk(
    engine: RotationEngine, name: str, before: str, after: str, entries: Sequence[ImportEntry]
) -> Exchange[None]:
    """Add ids, at most 1,000, and store the progress of the import `name`; do both or neither.

    before: the progress so far. after: the progress with these entries. Raises QueueFull if they do not fit,
    ImportConflict if the progress is not `before`.
    """
    yield from ready(engine, DISCIPLINE)
    call = script(
        "rotation/import", engine.keys, progress=progress_key(engine, name), before=before, after=after,
        keep_ms=KEEP_MS, bell=engine.keys.bell, entries=[value for entry in entries for value in entry.args],
    )  # fmt: skip
    yield from stored(engine, name, call)
