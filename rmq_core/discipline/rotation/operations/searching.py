"""Search the ids of a rotation queue."""

from __future__ import annotations

from collections import Counter

from rmq_core.discipline.rotation.engine import RotationEngine
from rmq_core.discipline.rotation.operations.inspecting import stats
from rmq_core.discipline.rotation.operations.moving import STATES, export_page
from rmq_core.envelope.matching import Match
from rmq_core.envelope.stored import StoredPage
from rmq_core.exchange import Exchange
from rmq_core.queue.moving import Cursor
from rmq_core.queue.searching import search_pages
from rmq_core.reports import SearchPage


def search(engine: RotationEngine, target: str, where: Match, *, after: str | None = None) -> Exchange[SearchPage]:
    """Look through one page of the `ready` or `leased` ids, and return those that meet the conditions.

    after: what the last step returned, None for the first one. Repeat it until `after` is None.
    """
    return (yield from search_pages(engine, target, where, after, states=STATES, page_of=_page, stats=stats))


def _page(engine: RotationEngine, target: str, cursor: Cursor) -> Exchange[StoredPage]:
    """Return a page whose cursor can be written as JSON."""
    if cursor:
        offset, last, dropped = cursor
        cursor = (offset, last, Counter(dict(dropped)))
    page = yield from export_page(engine, target, cursor)
    if page.cursor is None:
        return page
    offset, last, dropped = page.cursor
    return page._replace(cursor=(offset, last, list(dropped.items())))
