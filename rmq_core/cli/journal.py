"""`rmq journal export`: writes the journal of a queue to a file, or to stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Queue, Url
from rmq_core.cli.output import counted, emit, note
from rmq_core.cli.progress import shown
from rmq_core.transfer.journal import JournalExport, into_file, into_lines

_To = Annotated[
    Path | None,
    typer.Option(
        "--to",
        help="The file: its name ends in .ndjson or .jsonl. Without it, the rows are written to stdout.",
        show_default=False,
        metavar="FILE",
    ),
]
_After = Annotated[
    str | None,
    typer.Option(
        "--after",
        help="Only entries after this one: the last of the export before.",
        show_default=False,
        metavar="ENTRY",
    ),
]


def export(
    queue: Queue,
    *,
    to: _To = None,
    after: _After = None,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """Write the journal of a queue, oldest entry first, and remove nothing; a line of JSON for each entry.

    Says at the end which entry was the last, for the --after of the next export.
    """
    opened_file = into_lines(sys.stdout.buffer) if to is None else into_file(to)
    with connected(url) as server, server.queue(queue, discipline) as opened:
        made = JournalExport(opened, after=after)
        with shown("exported") as line:
            made.write(opened_file, line.report)
        sys.stdout.buffer.flush()
    if as_json:
        emit({"queue": queue, "exported": made.rows, "last": made.last}, errors=to is None)
        return
    note(f"exported {counted(made.rows, 'row')} of the journal of {queue}" + _next(made))


def _next(made: JournalExport) -> str:
    if made.rows:
        return f"; the next export goes on with --after {made.last}"
    return ": it has no journal (set LeasedConfig(journal=...)), or nothing was added"
