"""Search messages, and change those that meet conditions: redrive, purge and discard by filter."""

from __future__ import annotations

from collections.abc import Iterable

from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.operations.inspecting import stats
from rmq_core.discipline.reliable.operations.moving import STATES, export_page
from rmq_core.envelope.matching import Match, chosen_by
from rmq_core.exchange import Call, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.queue.choosing import Changes, Place, Some, change_chosen, discard_chosen, drop_chosen
from rmq_core.queue.searching import reasons_in, search_pages
from rmq_core.reports import OnProgress, ReasonGroup, SearchPage


def search(engine: ReliableEngine, target: str, where: Match, *, after: str | None = None) -> Exchange[SearchPage]:
    """Look through one page of the `ready`, `leased` or `dead` messages, and return those that meet the conditions.

    after: what the last step returned, None for the first one. Repeat it until `after` is None.
    """
    return (yield from search_pages(engine, target, where, after, states=STATES, page_of=export_page, stats=stats))


def dead_reasons(engine: ReliableEngine, *, progress: OnProgress | None = None) -> Exchange[list[ReasonGroup]]:
    """Group all dead letters by the reasons of their failures, the largest group first.

    Numbers, hex ids and UUIDs are replaced by `#`. progress: called after each page; False stops the count there.
    """
    return (yield from reasons_in(engine.keys.dead, progress))


def discard(engine: ReliableEngine, message_ids: Iterable[str]) -> Exchange[int]:
    """Delete the dead letters with these ids; return how many. Of several with one id, the newest are deleted."""
    done = yield from discard_chosen(Place(engine.keys.dead, "left"), message_ids)
    engine.acted("discard", done.deleted, done.ids)
    return done.deleted


def redrive_where(engine: ReliableEngine, where: Match, changes: Changes) -> Exchange[int]:
    """Move dead letters that meet the conditions back to the queue, the oldest first; return how many."""
    keys = engine.keys

    def change(some: Some) -> Call:
        return script("reliable/redrive_chosen", keys, first=some.first, last=some.last, letters=some.entries)

    return (yield from change_chosen(Place(keys.dead, "right"), chosen_by(where), change, changes))


def purge_where(engine: ReliableEngine, target: str, where: Match, changes: Changes) -> Exchange[int]:
    """Delete the `ready` messages or the `dead` letters that meet the conditions; return how many."""
    key = engine.keys.queue if target == "ready" else engine.keys.dead
    return (yield from drop_chosen(Place(key, "left"), chosen_by(where), changes))
