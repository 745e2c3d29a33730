"""Export and import: read stored messages page by page, and write them in chunks with the progress of the import."""

from __future__ import annotations

from collections.abc import Sequence

from rmq_core.envelope import codec, export_record
from rmq_core.envelope.export_record import StoredMessage, StoredPage, group_of
from rmq_core.errors import PayloadError
from rmq_core.exchange import Command, Exchange, text_of
from rmq_core.exchange.scripts import script
from rmq_core.kernel.registry import ready
from rmq_core.kernel.transfer import KEEP_MS, PAGE, Cursor, ImportEntry, list_page, progress_key, states_only, stored
from rmq_core.leased.config import DISCIPLINE
from rmq_core.leased.inspecting import leased_envelopes
from rmq_core.leased.publishing import COMMIT
from rmq_core.leased.state import LeasedEngine

STATES = export_record.STATES
_BOUNDS = {"delayed": ("0", "+inf"), "isolated": ("-inf", "(0")}
_ID_LENGTH = 512


def export_page(engine: LeasedEngine, state: str, cursor: Cursor = ()) -> Exchange[StoredPage]:
    """Return a page of the stored messages in one state, in the order of claiming; dead letters oldest first.

    cursor: that of the page before; () for the first page. Changes nothing. Where messages wait in groups, the isolated
    ones are among the ready ones, and have no page of their own.
    """
    states_only(DISCIPLINE, state, STATES)
    if state == "leased":
        return (yield from _leased_page(engine, cursor))
    if state in _BOUNDS:
        return (yield from _scored_page(engine, state, cursor))
    key, side = (engine.keys.ready, "left") if state == "ready" else (engine.keys.dead, "right")
    return (yield from list_page(key, side, state, cursor, of=engine.keys))


def import_entry(message: StoredMessage) -> ImportEntry:
    """Return a message as `import_chunk` takes it. Raises PayloadError if the queue cannot store it."""
    own = codec.split(message.envelope)
    if len(own.id) > _ID_LENGTH:
        raise PayloadError(f"id has {len(own.id)} characters; at most {_ID_LENGTH} are taken")
    group = group_of(own.history)
    state = message.state if message.state in {"delayed", "dead"} else "ready"
    if message.state == "isolated" and group:
        state = "isolated"
    if state in {"ready", "dead"}:
        return ImportEntry(state, (message.envelope,), len(message.envelope))
    score = message.due_ms if state == "delayed" else -group
    return ImportEntry(state, (score or 0, message.envelope), len(message.envelope), group)


def import_chunk(
    engine: LeasedEngine, name: str, before: str, after: str, entries: Sequence[ImportEntry]
) -> Exchange[None]:
    """Store entries in one state, at most 1,000, and the progress of the import `name`; do both or neither.

    before: the progress so far. after: the progress with these entries. Raises QueueFull if they do not fit,
    ImportConflict if the progress is not `before`.
    """
    yield from ready(engine, DISCIPLINE)
    keys = engine.keys
    call = script(
        "leased/import", keys, engine.settings, progress=progress_key(engine, name), before=before, after=after,
        keep_ms=KEEP_MS, state=entries[0].state if entries else "ready",
        least_fence=max((entry.group for entry in entries), default=0) // 2 + 1,
        messages=[value for entry in entries for value in entry.args],
    )  # fmt: skip
    yield from stored(engine, name, call)


def _scored_page(engine: LeasedEngine, state: str, cursor: Cursor) -> Exchange[StoredPage]:
    last, last_score = cursor or (b"", "0")
    low, high = _BOUNDS[state]
    moved, found, scores = yield script(
        "leased/scored", set=engine.keys.delayed, low=low, high=high, most=PAGE, last=last, last_score=last_score
    )
    due = [int(float(score)) if state == "delayed" else None for score in scores]
    messages = [StoredMessage(state, envelope, ms) for envelope, ms in zip(found, due, strict=True)]
    return StoredPage(messages, (found[-1], scores[-1]) if found else None, moved == 1)


def _leased_page(engine: LeasedEngine, cursor: Cursor) -> Exchange[StoredPage]:
    """Return a page of the messages of one lease; then the next of the leases that the first page found follows."""
    if not cursor:
        ids = yield Command(("ZRANGE", engine.keys.leases, 0, -1))
        names = [text_of(name) for name in ids]
        cursor = ([name for name in names if not name.startswith(COMMIT.decode())], 0, 0)
    names, place, at = cursor
    if place == len(names):
        return StoredPage([], None)
    owner, taken, envelopes = yield from leased_envelopes(engine, names[place], at, at + PAGE)
    found = [StoredMessage("leased", envelope, None, names[place], owner) for envelope in envelopes]
    return StoredPage(found, (names, place, at + taken) if taken else (names, place + 1, 0))
