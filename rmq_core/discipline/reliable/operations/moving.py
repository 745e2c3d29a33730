"""Export: read the stored messages of one state, page by page."""

from __future__ import annotations

from rmq_core.discipline.reliable.config import DISCIPLINE
from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.operations.inspecting import page_of_workers
from rmq_core.envelope.stored import StoredPage
from rmq_core.exchange import Exchange
from rmq_core.queue.moving import Cursor, list_page, states_only

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
