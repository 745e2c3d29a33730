"""Inspect a queue and the messages that its workers hold; read pages of them for an export."""

from __future__ import annotations

from rmq_core.envelope.codec import Message, message_of
from rmq_core.envelope.export_record import StoredPage
from rmq_core.exchange import Call, Command, Exchange, text_of
from rmq_core.exchange.scripts import script
from rmq_core.kernel.transfer import Cursor, list_page, states_only
from rmq_core.policy import age_s, whole
from rmq_core.reliable.state import DISCIPLINE, ReliableEngine
from rmq_core.reports import Backlog, QueueStats

_PAGE = 1000


def backlog(engine: ReliableEngine) -> Exchange[Backlog]:
    """Return the number of messages in the queue and the age of the oldest.

    A reaper must requeue the messages of dead workers before they count.
    """
    ready, _, _, _, oldest, now = yield _stats(engine, [])
    return Backlog(ready, age_s(oldest, now))


def stats(engine: ReliableEngine) -> Exchange[QueueStats]:
    """Return what the queue holds. This is no snapshot: each call counts the messages of at most 1,000 workers."""
    leased = leases = first = 0
    while True:
        workers = yield from page_of_workers(engine, first)
        ready, dead, held, tokens, oldest, now = yield _stats(engine, workers)
        leased, leases, first = leased + held, leases + tokens, first + len(workers)
        if len(workers) < _PAGE:
            return QueueStats(ready, 0, leased, leases, dead, age_s(oldest, now), paused=False)


def page_of_workers(engine: ReliableEngine, first: int) -> Exchange[list[str]]:
    """Return the names of up to 1,000 workers from index `first` on, the least recently seen first."""
    found = yield Command(("ZRANGE", engine.keys.workers, first, first + _PAGE - 1))
    return [text_of(name) for name in found]


def peek(engine: ReliableEngine, count: int = 1) -> Exchange[list[Message]]:
    """Return the messages that would be claimed next, at most `count` of them, oldest first."""
    found = yield script("kernel/list_peek", list=engine.keys.queue, count=whole("count", count, minimum=1))
    return [message_of(envelope) for envelope in reversed(found)]


def dead_letters(engine: ReliableEngine, count: int = 10) -> Exchange[list[Message]]:
    """Return the newest dead letters with their history, at most `count` of them."""
    found = yield script("kernel/list_peek", list=engine.keys.dead, count=-whole("count", count, minimum=1))
    return [message_of(envelope) for envelope in found]


def lists_of(engine: ReliableEngine, workers: list[str]) -> list[bytes]:
    """Return the keys of the processing list and of the claims of each worker."""
    return [key for worker in workers for key in (engine.keys.processing(worker), engine.keys.claims(worker))]


def _stats(engine: ReliableEngine, workers: list[str]) -> Call:
    return script("reliable/stats", engine.keys, lists=lists_of(engine, workers))


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
