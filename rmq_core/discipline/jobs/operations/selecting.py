"""Search jobs, and change dead letters that meet conditions: redrive, purge and discard by filter."""

from __future__ import annotations

from collections.abc import Iterable

from rmq_core.discipline.jobs.engine import JobsEngine
from rmq_core.discipline.jobs.operations.moving import STATES, export_page
from rmq_core.discipline.jobs.operations.reading import stats
from rmq_core.envelope.matching import Match, chosen_by
from rmq_core.exchange import Call, Exchange
from rmq_core.exchange.scripts import script
from rmq_core.observe.fact import Act
from rmq_core.queue.choosing import Changes, Place, Some, change_chosen, discard_chosen, drop_chosen
from rmq_core.queue.searching import reasons_in, search_pages
from rmq_core.reports import OnProgress, ReasonGroup, SearchPage


def search(engine: JobsEngine, target: str, where: Match, *, after: str | None = None) -> Exchange[SearchPage]:
    """Look through one page of the `ready`, `delayed`, `leased` or `dead` jobs; return those that meet the conditions.

    after: what the last step returned, None for the first one. Repeat it until `after` is None.
    """
    return (yield from search_pages(engine, target, where, after, states=STATES, page_of=export_page, stats=stats))


def dead_reasons(engine: JobsEngine, *, progress: OnProgress | None = None) -> Exchange[list[ReasonGroup]]:
    """Group all dead letters by the reasons of their failures, the largest group first.

    Numbers, hex ids and UUIDs are replaced by `#`. progress: called after each page; False stops the count there.
    """
    return (yield from reasons_in(engine.keys.dead, progress))


def discard(engine: JobsEngine, message_ids: Iterable[str]) -> Exchange[int]:
    """Delete the dead letters with these ids; return how many. Of several with one id, the newest are deleted."""
    done = yield from discard_chosen(Place(engine.keys.dead, "left"), message_ids)
    engine.state(Act.DISCARD, done.deleted, ids=done.ids)
    return done.deleted


def redrive_where(engine: JobsEngine, where: Match, changes: Changes) -> Exchange[int]:
    """Move dead letters that meet the conditions back to the stream, the oldest first; return how many."""

    def change(some: Some) -> Call:
        return script(
            "jobs/redrive_chosen", engine.keys, engine.settings, first=some.first, last=some.last, letters=some.entries
        )

    return (yield from change_chosen(Place(engine.keys.dead, "right"), chosen_by(where), change, changes))


def purge_where(engine: JobsEngine, where: Match, changes: Changes) -> Exchange[int]:
    """Delete the dead letters that meet the conditions; return how many."""
    return (yield from drop_chosen(Place(engine.keys.dead, "left"), chosen_by(where), changes))
