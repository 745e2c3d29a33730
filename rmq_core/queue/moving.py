"""Code shared by the disciplines for exports and imports: pages of lists, the progress of an import, refusals."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rmq_core.envelope.stored import StoredMessage, StoredPage
from rmq_core.errors import ImportConflict, QueueFull, ScriptFailed, Unsupported
from rmq_core.exchange import Call, Encodable, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.protocol import able
from rmq_core.queue.base import Engine, Method
from rmq_core.queue.keys import check_name

PAGE = 1000
KEEP_MS = 7 * 86_400_000
DROPPABLE = {
    "ids": "their ids", "headers": "their headers", "history": "the history of their failures",
    "deliveries": "how often they were delivered", "times": "when they were enqueued", "delays": "their delays",
}  # fmt: skip
"""What an import may leave out of messages with `--drop`."""
Cursor = tuple[Any, ...]


class ImportEntry(NamedTuple):
    """A message as the import script of a discipline takes it: state, arguments, and their size in bytes."""

    state: str
    args: tuple[Encodable, ...]
    size: int
    group: int = 0


def progress_key(engine: Engine, name: str) -> bytes:
    """Return the key of the progress of an import."""
    return b"%bimport:%b" % (engine.prefix, check_name("name", name).encode())


def import_progress(engine: Engine, name: str) -> Exchange[tuple[str, int]]:
    """Return the progress of an import, '' for none, and the server's time in ms."""
    record, now_ms = yield script("progress/read", progress=progress_key(engine, name))
    return record.decode(), now_ms


class Transferable:
    """The part of a queue that exports and imports. `_moving` is the discipline's module of these operations."""

    _engine: Any
    _moving: Any
    import_progress = Method(import_progress)

    @property
    def stored_states(self) -> Sequence[str]:
        """The states that `export_page` can read, in the order of an export."""
        states: Sequence[str] = self._moving.STATES
        return states

    def import_entry(self, message: StoredMessage, drop: frozenset[str] = frozenset()) -> ImportEntry:
        """Return a stored message as `import_chunk` takes it. Raises PayloadError or Unsupported if it cannot be."""
        entry: ImportEntry = self._moving.import_entry(self._engine, message, drop)
        return entry


def list_page(key: bytes, side: str, state: str, cursor: Cursor, most: int = PAGE) -> Exchange[StoredPage]:
    """Return a page of the messages in a list."""
    offset, last = cursor or (0, "")
    moved, found, *_ = yield script("lists/slice", list=key, side=side, offset=offset, most=most, last=last)
    further = (offset + len(found), hashlib.sha1(found[-1], usedforsecurity=False).hexdigest()) if found else None
    return StoredPage([StoredMessage(state, envelope) for envelope in found], further, moved == 1)


def stored(engine: Engine, name: str, call: Call) -> Exchange[None]:
    """Send a chunk of an import. Raises QueueFull or ImportConflict if it was not stored."""
    reply = yield call
    verdict, _, detail = reply.decode().partition(" ")
    if verdict == "elsewhere":
        raise ImportConflict(
            f"another import {name!r} into {engine.name!r} is running: wait for it, then run this again"
        )
    if verdict == "full":
        raise QueueFull(f"queue {engine.name!r} has no room: {detail} is reached; raise it with --set {detail}=NUMBER")
    if verdict == "newer":
        raise ImportConflict(
            f"stream {engine.name!r} has the newer entry {detail}, so entries cannot keep their ids: --drop ids"
            " --drop times adds them under new ids"
        )
    if verdict != "imported":
        raise ScriptFailed(f"import got {reply.decode()!r}")


def states_only(discipline: str, state: str, able_to: Sequence[str]) -> str:
    """Return the state. Raises Unsupported if the discipline has no messages in it."""
    if state not in able_to:
        raise Unsupported(discipline, f"{state} messages", able("dead_letters") if state == "dead" else ("leased",))
    return state


def must_drop(discipline: str, parts: Mapping[str, object], drop: frozenset[str]) -> None:
    """Raise Unsupported if a message has parts that the discipline cannot keep and that may not be dropped.

    parts: the names of such parts, and for each whether the message has it.
    """
    lost = [part for part, present in parts.items() if present and part not in drop]
    if lost:
        options = " ".join(f"--drop {part}" for part in lost)
        left_out = " and ".join(DROPPABLE[part] for part in lost)
        able_to = able("delay" if lost == ["delays"] else "headers")
        raise Unsupported(
            discipline, f"place for {', '.join(lost)} ({options} imports messages without {left_out})", able_to
        )
