"""`rmq export` and `rmq import`: move the messages of a queue to another server or discipline."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from rmq_cli.dead import purge_of
from rmq_cli.opening import At, Queue, Yes, argument, connected, option
from rmq_cli.output import Exit, complain, counted, emit, note, say, shown
from rmq_cli.search import Conditions
from rmq_core import __version__
from rmq_core.envelope.export_record import STATES
from rmq_core.errors import ConfigurationError
from rmq_core.transfer.exporting import Export, ExportFile
from rmq_core.transfer.importing import Import, ImportOptions, ImportReport
from rmq_core.transfer.moving import ids_in, matches_of

_States = Annotated[
    list[str] | None, option("--state", help=f"Only messages in this state ({', '.join(STATES)}); may be repeated.")
]
_Leased = Annotated[
    bool, typer.Option("--include-leased", help="Also messages that consumers hold; these may still finish them.")
]
_Live = Annotated[
    bool,
    typer.Option("--live", help="Export a queue that is not paused; messages that move may be lost or doubled."),
]
_File = Annotated[Path | None, argument(help="The export; read from stdin when left out.", metavar="[FILE]")]
_Name = Annotated[
    str | None,
    option(
        "--as",
        help="Name under which the queue remembers the progress; by default the exported queue and its discipline.",
        metavar="NAME",
    ),
]
_Edited = Annotated[bool, typer.Option("--edited", help="Accept a file whose messages were changed or filtered.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Check the whole file and write nothing.")]


def export(
    queue: Queue,
    *,
    state: _States = None,
    include_leased: _Leased = False,
    live: _Live = False,
    chosen: Conditions,
    at: At,
) -> None:
    """Write the messages of a queue to stdout, one JSON object a line, and remove none of them.

    The queue has to be paused, so that no message moves meanwhile. `rmq import` reads the file.
    """
    with at.queue(queue) as opened:
        made = Export(opened, __version__, states=state, include_leased=include_leased, live=live, where=chosen.where)
        with shown("exported") as line:
            for each in made.lines(line.report):
                sys.stdout.buffer.write(each)
            sys.stdout.buffer.flush()
        _say_exported(queue, made, selected=bool(chosen), as_json=at.as_json)


def import_(
    queue: Queue,
    file: _File = None,
    *,
    name: _Name = None,
    state: _States = None,
    edited: _Edited = False,
    dry_run: _DryRun = False,
    at: At,
) -> None:
    """Add the messages of an export to a queue; a run that was interrupted goes on when it is started again.

    A file is checked to its end before the first message is written; a pipe cannot be. A new queue is created, with the
    discipline of the export unless --discipline is given. Queues of the disciplines leased and jobs take imports.
    """
    options = ImportOptions(_chosen_states(state), edited)
    with connected(at.url) as server, _opened(file) as lines:
        read = ExportFile(lines)
        kind = at.discipline or server.discipline_of(queue) or read.header.discipline
        with server.queue(queue, kind, new=True) as opened, shown("imported") as line:
            made = Import(opened, name or f"{read.header.queue}.{read.header.discipline}", options)
            if dry_run or lines.seekable():
                report = made.check(read)
                lines.seek(0) if not dry_run else None
            if not dry_run:
                report = made.run(ExportFile(lines) if lines.seekable() else read, line.report)
    _say_imported(queue, kind, report, dry_run=dry_run, as_json=at.as_json)


_WAITING = ("ready", "isolated", "delayed")
_Purged = Annotated[
    list[str] | None,
    option("--state", help="Messages in this state: ready, isolated or delayed; may be repeated.", metavar="STATE"),
]
_Exported = Annotated[
    Path | None, option("--exported", help="The messages of this export, wherever they wait now.", metavar="FILE")
]


def purge(
    queue: Queue, *, state: _Purged = None, exported: _Exported = None, chosen: Conditions, yes: Yes = False, at: At
) -> None:
    """Delete messages that wait, by their state; or exactly those of an export, once they were imported elsewhere.

    It asks first, and says how many. With --exported, the exit code is 1 if some of the messages were not found.
    """
    if (state is None) == (exported is None):
        raise ConfigurationError("say what to delete: --state, or --exported with the file of an export")
    if exported is None:
        for each in state or ():
            if each not in _WAITING:
                raise ConfigurationError(
                    f"--state must be one of {', '.join(_WAITING)}, not {each!r}: `rmq dlq purge` deletes dead letters,"
                    " and leases can be released or expired"
                )
        purge_of(queue, dict.fromkeys(state or (), chosen.where), f" with {chosen}" if chosen else "", yes=yes, at=at)
        return
    if chosen:
        raise ConfigurationError(f"--exported says which messages to delete: leave {chosen} out")
    with _opened(exported) as lines:
        ids = ids_in(ExportFile(lines))
    states = matches_of(ids)
    wanted = sum(len(found) for found in ids.values())
    done = purge_of(queue, states, f" that {exported} has", yes=yes, at=at) if states else 0
    if done < wanted:
        complain(f"{counted(wanted - done, 'message')} of {exported} were not found where the export found them")
        raise typer.Exit(Exit.FAILED)


@contextmanager
def _opened(file: Path | None) -> Iterator[BinaryIO]:
    if file is None:
        if sys.stdin.isatty():
            raise ConfigurationError("no export: name a FILE after the queue, or pipe one in")
        yield sys.stdin.buffer
        return
    try:
        with file.open("rb") as lines:
            yield lines
    except OSError as error:
        raise ConfigurationError(f"FILE {file}: {error.strerror}") from error


def _chosen_states(given: list[str] | None) -> frozenset[str] | None:
    for name in given or ():
        if name not in STATES:
            raise ConfigurationError(f"--state must be one of {', '.join(STATES)}, not {name!r}")
    return frozenset(given) if given else None


def _say_exported(queue: str, made: Export, *, selected: bool, as_json: bool) -> None:
    held = 0 if "leased" in made.states else made.before.leased
    if as_json:
        about = {"queue": queue, "exported": made.counts.total(), "states": dict(made.counts), "held": held}
        emit({**about, "changed": made.changed}, errors=True)
        return
    note(f"exported {_states(made.counts.total(), dict(made.counts))} of {queue}")
    if held:
        what = "not searched" if selected else "not exported"
        note(f"{counted(held, 'message')} {what}: consumers hold them (--include-leased)")
    if made.changed:
        note("messages moved during the export: some may be missing or doubled")


def _say_imported(queue: str, kind: str, report: ImportReport, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        emit({"queue": queue, "discipline": kind, **report._asdict(), "dry_run": dry_run})
        return
    done = "would import" if dry_run else "imported"
    besides = [f"{report.before:,} were imported before"] if report.before else []
    besides += [f"{report.left_out:,} left out"] if report.left_out else []
    say("; ".join([f"{done} {_states(report.imported, report.states)} into {queue} ({kind})", *besides]))


def _states(total: int, states: dict[str, int]) -> str:
    parts = ", ".join(f"{number:,} {state}" for state, number in states.items() if number)
    return counted(total, "message") + (f" ({parts})" if parts else "")
