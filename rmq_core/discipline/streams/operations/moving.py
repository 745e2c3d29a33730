"""Export: read the entries of a stream page by page."""

from __future__ import annotations

from rmq_core.discipline.streams.engine import StreamEngine
from rmq_core.discipline.streams.messages import FIELD, envelope
from rmq_core.envelope.stored import StoredMessage, StoredPage
from rmq_core.exchange import Exchange
from rmq_core.exchange.scripts import script
from rmq_core.queue.moving import PAGE, Cursor, states_only

STATES = ("leased", "ready")


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


def _new_page(engine: StreamEngine, last: str | bytes) -> Exchange[StoredPage]:
    found = yield script(
        "pages/entries", engine.keys, group=engine.config.consumer_group, last=last, most=PAGE, field=FIELD
    )
    pairs = zip(found[::2], found[1::2], strict=True)
    messages = [StoredMessage("ready", envelope(entry_id.decode(), data, 0)) for entry_id, data in pairs]
    return StoredPage(messages, ("new", found[-2]) if found else None)
