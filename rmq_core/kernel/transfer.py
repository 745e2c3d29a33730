"""Code shared by the disciplines for exports and imports: pages of lists, the progress of an import, refusals."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rmq_core.envelope.export_record import StoredMessage, StoredPage
from rmq_core.errors import ImportConflict, QueueFull, ScriptFailed, Unsupported
from rmq_core.exchange import Call, Encodable, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.base import Engine, Method
from rmq_core.kernel.keys import Keys, check_name
from rmq_core.protocol import able

PAGE = 1000
KEEP_MS = 7 * 86_400_000
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
    record, now_ms = yield script("kernel/import_progress", progress=progress_key(engine, name))
    return record.decode(), now_ms


class Importable:
    """The part of a queue that takes imports; a discipline adds `import_chunk`."""

    _import_entry: Callable[[StoredMessage], ImportEntry]
    import_progress = Method(import_progress)

    def import_entry(self, message: StoredMessage) -> ImportEntry:
        """Return a stored message as `import_chunk` takes it. Raises PayloadError if the queue cannot store it."""
        return self._import_entry(message)


def list_page(
    key: bytes, side: str, state: str, cursor: Cursor, most: int = PAGE, of: Keys | None = None
) -> Exchange[StoredPage]:
    """Return a page of the messages in a list; `of` are the keys of a queue that may store it in another layout."""
    offset, last = cursor or (0, "")
    moved, found, *_ = yield script("kernel/list_slice", of, list=key, side=side, offset=offset, most=most, last=last)
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
        raise QueueFull(f"queue {engine.name!r} has no room: {detail} is reached; `rmq configure` raises it")
    if verdict != "imported":
        raise ScriptFailed(f"import got {reply.decode()!r}")


def states_only(discipline: str, state: str, able_to: Sequence[str]) -> str:
    """Return the state. Raises Unsupported if the discipline has no messages in it."""
    if state not in able_to:
        raise Unsupported(discipline, f"{state} messages", able("dead_letters") if state == "dead" else ("leased",))
    return state
