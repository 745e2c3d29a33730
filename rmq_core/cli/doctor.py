"""`rmq doctor`: checks whether a server is set up for queues, and reports what to change."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from rmq_core.cli.checks import Finding, Level, examine
from rmq_core.cli.facts import gather
from rmq_core.cli.failures import Exit
from rmq_core.cli.formats import examine_formats
from rmq_core.cli.holders import examine_leases, examine_orchestrators
from rmq_core.cli.opening import Registered, Server, connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Url
from rmq_core.cli.output import console, emit, plain, table
from rmq_core.cli.pauses import examine_pause
from rmq_core.cli.requirements import needed
from rmq_core.errors import FormatMismatch, RedisMessageQueueError, ScriptFailed
from rmq_core.protocol import DEFAULT
from rmq_core.queue.verbs import can

_MARKS = {
    Level.OK: ("✔", "green"),
    Level.WARN: ("!", "yellow"),
    Level.FAIL: ("✘", "bold red"),
    Level.UNKNOWN: ("?", "dim"),
}
_LISTED = 1000
_Name = Annotated[
    str | None,
    typer.Argument(
        help="A queue to check as well. Name one if your user may access the keys of some queues only.",
        show_default=False,
        metavar="[QUEUE]",
    ),
]


def doctor(queue: _Name = None, *, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False) -> None:
    """Check a server and its queues: version, persistence, memory, permissions, clients, formats; change nothing.

    The exit code is 1 when something must be changed. It queries Airflow and Dagster if they are installed and
    configured here, and warns of settings of theirs that stop queues. For a named queue, it reports whether the queue
    is paused and which leases have a holder that has ended.
    """
    with connected(url) as server:
        known = discipline or _discipline_of(server, queue)
        findings = examine(server.ask(gather(needed(known, queue))))
        findings += [*_formats(server, queue, known), *examine_orchestrators()]
        if queue is not None:
            findings += _of_queue(server, queue, known)
        where = str(server.settings)
    failed = any(finding.level == Level.FAIL for finding in findings)
    if as_json:
        rows = [{**finding._asdict(), "level": finding.level.value} for finding in findings]
        emit({"ok": not failed, "server": where, "discipline": known, "findings": rows})
    else:
        _show(findings, where, known)
    if failed:
        raise typer.Exit(Exit.FAILED)


def _discipline_of(server: Server, queue: str | None) -> str:
    if queue is None:
        return DEFAULT
    try:
        return server.discipline_of(queue) or DEFAULT
    except ScriptFailed:  # the user may not read the registry: one of the findings reports it
        return DEFAULT


def _formats(server: Server, queue: str | None, discipline: str) -> list[Finding]:
    """Check the format of the named queue, or of all registered ones."""
    try:
        queues = server.registered()[:_LISTED] if queue is None else [Registered(queue, discipline)]
    except RedisMessageQueueError:  # the user may not read the registry: another finding reports it
        return []
    return examine_formats(server, queues)


def _of_queue(server: Server, queue: str, discipline: str) -> list[Finding]:
    with server.queue(queue, discipline) as opened:
        if not can(opened, "leases"):
            return []
        try:
            return [examine_pause(opened), *examine_leases(queue, opened.admin.leases(_LISTED))]
        except FormatMismatch:  # another finding names the format and the version to install
            return []
        except ScriptFailed as error:  # the user lacks a permission; another finding names it
            return [Finding(Level.UNKNOWN, "queue", str(error))]


def _show(findings: list[Finding], where: str, discipline: str) -> None:
    out = console()
    out.print(Text(f"{plain(where)} for {discipline} queues"))
    out.print(table(("", "what", "found"), [(_mark(one.level), one.what, one.found) for one in findings]))
    for one in findings:
        if one.advice:
            out.print(Text.assemble(_mark(one.level), f" {one.what}: ", Text(plain(one.advice))), soft_wrap=True)


def _mark(level: Level) -> Text:
    return Text(*_MARKS[level])
