"""Commands on dead letters: dlq list, reasons, redrive, purge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from rmq_core.cli import records
from rmq_core.cli.conditions import Conditions, Group, Header, Ids, Reason, Text
from rmq_core.cli.confirmation import confirm
from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Count, Discipline, Json, Queue, Url, Yes
from rmq_core.cli.output import counted, emit, say, show
from rmq_core.cli.progress import Watched, watched
from rmq_core.cli.search import matching
from rmq_core.queue.verbs import check_conditions, conditional
from rmq_core.reports import OnProgress

_Most = Annotated[
    int | None, typer.Option("--max", min=1, help="How many at most; all when left out.", show_default=False)
]


def listed(
    queue: Queue, *, count: Count = 10, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False
) -> None:
    """List the newest dead letters and the reasons of their failures."""
    with connected(url) as server, server.queue(queue, discipline) as opened:
        found = opened.admin.dead_letters(count)
    if as_json:
        for message in found:
            emit(records.message_record(queue, message))
        return
    show(records.MESSAGES, map(records.message_row, found), f"{queue} has no dead letters")


def reasons(queue: Queue, *, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False) -> None:
    """Group the dead letters by the reasons of their last failures; # stands for numbers and ids.

    `--group` of the other commands takes one of them.
    """
    with connected(url) as server, server.queue(queue, discipline) as opened, watched("") as watch:
        found = opened.admin.dead_reasons(progress=watch.step)
    if as_json:
        for group in found:
            emit(records.reason_record(queue, group))
    else:
        show(records.REASONS, map(records.reason_row, found), f"{queue} has no dead letters")
    watch.end()


def redrive(
    queue: Queue,
    *,
    most: _Most = None,
    text: Text = None,
    header: Header = None,
    reason: Reason = None,
    group: Group = None,
    message_id: Ids = None,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """Make dead letters ready again with a fresh delivery budget, the oldest first: all, or those that options choose.

    Ctrl-C ends it between two steps; what was done so far stays done.
    """
    chosen = Conditions(text, header, reason, group, message_id)
    with connected(url) as server, server.queue(queue, discipline) as opened, watched("redriven") as watch:
        able = opened.admin
        if chosen:
            check_conditions(opened, "redrive")
            _each(chosen, watch, most, lambda left, where: able.redrive(left, where=where, progress=watch.step))
        else:
            watch.done = able.redrive(most, **_progress_of(opened, watch))
    _tell(queue, "redriven", watch.done, as_json=as_json)
    watch.end()


def purge(
    queue: Queue,
    *,
    text: Text = None,
    header: Header = None,
    reason: Reason = None,
    group: Group = None,
    message_id: Ids = None,
    yes: Yes = False,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """Delete dead letters of a queue: all, or those that the options choose; ask first, and say how many."""
    chosen = Conditions(text, header, reason, group, message_id)
    with connected(url) as server, server.queue(queue, discipline) as opened:
        able = opened.admin
        if chosen:
            check_conditions(opened, "purge")
        if not yes and (dead := _number(opened, chosen)):
            whose = f"of {queue} ({opened.discipline}) on {server.settings}"
            confirm(f"Delete {counted(dead, 'dead letter')} {whose}{f' with {chosen}' if chosen else ''}?")
        with watched("purged") as watch:
            if chosen:
                _each(chosen, watch, None, lambda _, where: able.purge("dead", where=where, progress=watch.step))
            else:
                watch.done = able.purge("dead")
    _tell(queue, "purged", watch.done, as_json=as_json)
    watch.end()


def _each(chosen: Conditions, watch: Watched, most: int | None, change: Callable[[int | None, Any], int]) -> None:
    """Change what each Match of the conditions chooses, until `most` messages are changed or the command is stopped."""
    for where in chosen.matches:
        left = None if most is None else most - watch.done
        if left == 0 or watch.stopped:
            return
        watch.done += change(left, where)


def _number(queue: Any, chosen: Conditions) -> int:
    """Count the dead letters that the conditions choose; end the command if it is stopped meanwhile."""
    if not chosen:
        return int(queue.stats().dead)
    with watched("found") as watch:
        for where in chosen.matches:
            for page in matching(queue, "dead", where, watch):
                watch.done += len(page.messages)
    watch.end()
    return watch.done


def _progress_of(queue: Any, watch: Watched) -> dict[str, OnProgress]:
    return {"progress": watch.step} if conditional(queue, "redrive") else {}


def _tell(queue: str, what: str, count: int, *, as_json: bool) -> None:
    if as_json:
        emit({"queue": queue, what: count})
    else:
        say(f"{what} {counted(count, 'dead letter')} of {queue}")
