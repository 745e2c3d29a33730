"""Commands on dead letters: dlq list, redrive, purge."""

from __future__ import annotations

from typing import Annotated

import typer

from rmq_core.cli import records
from rmq_core.cli.confirmation import confirm
from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Count, Discipline, Json, Queue, Url, Yes
from rmq_core.cli.output import counted, emit, say, show

_Most = Annotated[
    int | None, typer.Option("--max", min=1, help="How many at most; all when left out.", show_default=False)
]


def listed(
    queue: Queue, *, count: Count = 10, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False
) -> None:
    """List the newest dead letters and the reasons of their failures."""
    with connected(url) as server, server.queue(queue, discipline) as opened:
        found = opened.dead_letters(count)
    if as_json:
        for message in found:
            emit(records.message_record(queue, message))
        return
    show(records.DEAD, map(records.dead_row, found), f"{queue} has no dead letters")


def redrive(
    queue: Queue, *, most: _Most = None, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False
) -> None:
    """Make dead letters ready again with a fresh delivery budget, the oldest first."""
    with connected(url) as server, server.queue(queue, discipline) as opened:
        moved = opened.redrive(most)
    _tell(queue, "redriven", moved, as_json=as_json)


def purge(
    queue: Queue, *, yes: Yes = False, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False
) -> None:
    """Delete all dead letters of a queue."""
    with connected(url) as server, server.queue(queue, discipline) as opened:
        dead = opened.stats().dead
        if dead and not yes:
            confirm(f"Delete {counted(dead, 'dead letter')} of {queue} ({opened.discipline}) on {server.settings}?")
        removed = opened.purge("dead")
    _tell(queue, "purged", removed, as_json=as_json)


def _tell(queue: str, what: str, count: int, *, as_json: bool) -> None:
    if as_json:
        emit({"queue": queue, what: count})
    else:
        say(f"{what} {counted(count, 'dead letter')} of {queue}")
