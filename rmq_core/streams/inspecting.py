"""Inspect a queue; purge and trim it; read pages of entries for an export."""

from __future__ import annotations

from rmq_core.envelope.codec import Message, message_of
from rmq_core.envelope.export_record import StoredMessage, StoredPage
from rmq_core.errors import ConfigurationError, ScriptFailed
from rmq_core.exchange import Call, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.kernel.transfer import PAGE, Cursor, states_only
from rmq_core.policy import whole
from rmq_core.protocol import lacking
from rmq_core.reports import Backlog, QueueStats
from rmq_core.streams.native import count_call
from rmq_core.streams.state import FIELD, StreamEngine, envelope

_AT_A_TIME = 1000


def backlog(engine: StreamEngine) -> Exchange[Backlog]:
    """Return how many messages are ready, new or stale, and how old the oldest is. Changes nothing in Redis."""
    found = yield count_call(engine)
    return Backlog(found[1] + found[3], _oldest_age(found))


def stats(engine: StreamEngine) -> Exchange[QueueStats]:
    """Count the messages that the queue holds for this group. Stale ones are ready: any consumer may claim them."""
    found = yield count_call(engine)
    leased = max(0, found[2] - found[3])
    return QueueStats(found[1] + found[3], 0, leased, found[7] if leased else 0, 0, _oldest_age(found), paused=False)


def peek(engine: StreamEngine, count: int = 1) -> Exchange[list[Message]]:
    """Return the messages that would be claimed next, oldest first, without claiming them."""
    whole("count", count, minimum=1)
    config = engine.config
    found = yield script(
        "streams/peek", engine.keys, group=config.consumer_group, stale_ms=config.claim_idle_ms, most=count
    )  # fmt: skip
    return [message_of(envelope(entry[0].decode(), entry[2], int(entry[1]))) for entry in found]


def purge(engine: StreamEngine, which: str) -> Exchange[int]:
    """Let the group skip all `ready` messages. Return how many. The entries stay in the stream until `trim`.

    Raises Unsupported for `delayed` and `dead`, which a stream does not have.
    """
    if which in {"delayed", "dead"}:
        raise lacking("streams", {"delayed": "delay", "dead": "dead_letters"}[which])
    if which != "ready":
        raise ConfigurationError(f"which must be ready, not {which!r}; leases can only be settled")
    config = engine.config
    skip = script("streams/skip", engine.keys, group=config.consumer_group, stale_ms=config.claim_idle_ms)
    return (yield from _repeat(skip))


def trim(engine: StreamEngine) -> Exchange[int]:
    """Delete the entries that no group of the stream needs any more, oldest first. Return how many.

    No other operation deletes entries. This one stops at the first entry that some group has yet to read or to
    acknowledge.
    """
    return (yield from _repeat(script("streams/trim", engine.keys)))


def _repeat(call: Call) -> Exchange[int]:
    total = 0
    while True:
        reply = yield call
        verdict, _, number = reply.decode().partition(" ")
        if not number:
            raise ScriptFailed(f"{call.script.name} got {verdict!r}")
        total += int(number)
        if int(number) < _AT_A_TIME:
            return total


def _oldest_age(found: list[int]) -> float | None:
    born = [ms for ms in found[4:6] if ms >= 0]
    return max(0.0, (found[8] - min(born)) / 1000) if born else None


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
        "kernel/page_of_pending", engine.keys, group=engine.config.consumer_group, last=last, most=PAGE, field=FIELD
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
        "kernel/page_of_entries", engine.keys, group=engine.config.consumer_group, last=last, most=PAGE, field=FIELD
    )
    pairs = zip(found[::2], found[1::2], strict=True)
    messages = [StoredMessage("ready", envelope(entry_id.decode(), data, 0)) for entry_id, data in pairs]
    return StoredPage(messages, ("new", found[-2]) if found else None)
