"""Inspect a queue by reading its list entry by entry; purge it; read pages of ids for an export."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from rmq_core.envelope.codec import Message, message_of
from rmq_core.envelope.export_record import StoredMessage, StoredPage
from rmq_core.errors import ConfigurationError, ScriptFailed
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.transfer import PAGE, Cursor, states_only
from rmq_core.policy import whole
from rmq_core.protocol import lacking
from rmq_core.reports import Backlog, QueueStats
from rmq_core.rotation.state import DISCIPLINE, RotationEngine, envelope

_PAGE = 5000


class Seen(NamedTuple):
    """How many entries are new, late, in progress or done; the ids that would be popped first."""

    new: int
    late: int
    in_progress: int
    done: int
    ids: list[bytes]


def backlog(engine: RotationEngine) -> Exchange[Backlog]:
    """Return how many ids are new or late; their age is not known. Reads every entry."""
    seen = yield from count_entries(engine, 0)
    return Backlog(seen.new + seen.late, None)


def stats(engine: RotationEngine) -> Exchange[QueueStats]:
    """Return what the list holds; each id in progress counts as a lease. Reads every entry."""
    seen = yield from count_entries(engine, 0)
    return QueueStats(seen.new + seen.late, 0, seen.in_progress, seen.in_progress, 0, None, paused=False)


def peek(engine: RotationEngine, count: int = 1) -> Exchange[list[Message]]:
    """Return the ids that would be popped next, at most `count` of them."""
    seen = yield from count_entries(engine, whole("count", count, minimum=1), enough=True)
    return [message_of(envelope(data, late=False)) for data in seen.ids]


def purge(engine: RotationEngine, target: str) -> Exchange[int]:
    """Delete the `ready` ids, which are the new and the late ones; return how many. Ids in progress stay."""
    for name, capability in (("delayed", "delay"), ("dead", "dead_letters")):
        if target == name:
            raise lacking(DISCIPLINE, capability)
    if target != "ready":
        raise ConfigurationError(f"target must be ready, not {target!r}")
    removed = left = 0
    while True:
        reply = yield script("rotation/purge", engine.keys, timeout_s=engine.config.timeout_s, most=left)
        words = reply.split()
        if words[0] != b"removed":
            raise ScriptFailed(f"purge got {reply.decode()!r}")
        removed, left = removed + int(words[1]), int(words[2])
        if not left:
            return removed


def count_entries(engine: RotationEngine, listed: int, *, enough: bool = False) -> Exchange[Seen]:
    """Count the entries and list the first `listed` ids to be popped; with `enough`, stop once these are found."""
    counts, ids, first = [0, 0, 0, 0], list[bytes](), 0
    while True:
        reply = yield script(
            "rotation/stats", engine.keys, offset=first, most=_PAGE, timeout_s=engine.config.timeout_s,
            listed=listed - len(ids),
        )  # fmt: skip
        read, *more, found = reply
        first, counts, ids = first + read, [a + b for a, b in zip(counts, more, strict=True)], ids + found
        if read < _PAGE or (enough and len(ids) >= listed):
            new, late, in_progress, done = counts
            return Seen(new, late, in_progress, done, ids)


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
