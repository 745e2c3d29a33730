"""Export: read the ids of the list page by page."""

from __future__ import annotations

from collections import Counter

from rmq_core.discipline.rotation.config import DISCIPLINE
from rmq_core.discipline.rotation.engine import RotationEngine
from rmq_core.discipline.rotation.entries import envelope
from rmq_core.envelope.stored import StoredMessage, StoredPage
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.queue.moving import PAGE, Cursor, states_only

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
