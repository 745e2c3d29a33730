"""Search the messages of a stream."""

from __future__ import annotations

from rmq_core.discipline.streams.engine import StreamEngine
from rmq_core.discipline.streams.operations.inspecting import stats
from rmq_core.discipline.streams.operations.moving import STATES, export_page
from rmq_core.envelope.matching import Match
from rmq_core.exchange import Exchange
from rmq_core.queue.searching import search_pages
from rmq_core.reports import SearchPage


def search(engine: StreamEngine, target: str, where: Match, *, after: str | None = None) -> Exchange[SearchPage]:
    """Look through one page of the `ready` or `leased` messages, and return those that meet the conditions.

    after: what the last step returned, None for the first one. Repeat it until `after` is None.
    """
    return (yield from search_pages(engine, target, where, after, states=STATES, page_of=export_page, stats=stats))
