"""`rmq doctor`: checks whether a server is set up for queues, asks the orchestrators, and reports what to change.

A package registers a function under the entry point group `rmq.holders`. The function takes owners and returns, for
each one that has ended, the reason, and whether it failed by itself: then its messages may be the cause, and the lease
is to be expired, which counts a delivery; other leases are to be released. It omits owners that it cannot check here,
for example without a database.
A function under `rmq.findings` takes no arguments and returns pairs: a problem, and how to solve it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import redirect_stdout
from importlib.metadata import entry_points
from typing import Annotated

import typer
from rich.text import Text

from rmq_cli.doctor_checks import (
    Finding,
    Level,
    examine,
    examine_formats,
    examine_pause,
    examine_settings,
    examine_shards,
    gather,
    in_shards,
    needed,
)
from rmq_cli.opening import At, Registered, Server, argument, connected
from rmq_cli.output import Exit, console, counted, emit, plain, table
from rmq_core.admin.verbs import can
from rmq_core.errors import FormatMismatch, RedisMessageQueueError, ScriptFailed, WrongKeyType
from rmq_core.protocol import DEFAULT
from rmq_core.reports import LeaseInfo

GROUP, FINDINGS = "rmq.holders", "rmq.findings"
Ended = Callable[[Collection[str]], Mapping[str, tuple[str, bool]]]


def examine_orchestrators() -> Iterator[Finding]:
    """Yield what the installed orchestrators find wrong with their own settings."""
    for point in entry_points(group=FINDINGS):
        try:
            with redirect_stdout(sys.stderr):
                found = list(point.load()())
        except ImportError:  # the orchestrator is not installed
            continue
        except Exception as error:  # an orchestrator's error must not end the other checks
            text = f"it cannot be queried: {type(error).__name__}: {error}"
            yield Finding(Level.UNKNOWN, point.name, text)
        else:
            yield from (Finding(Level.WARN, point.name, text, advice) for text, advice in found)


def examine_leases(queue: str, leases: Collection[LeaseInfo]) -> Iterator[Finding]:
    """Yield a finding for each lease whose holder has ended and that no process will take over, else an OK."""
    owners = {lease.owner for lease in leases if lease.owner}
    ended: dict[str, tuple[str, bool]] = {}
    for point in entry_points(group=GROUP) if owners else ():
        try:
            with redirect_stdout(sys.stderr):  # Airflow logs to stdout, which this command reserves for data
                ask: Ended = point.load()
                ended |= ask(owners)
        except Exception as error:  # an orchestrator's error must not end the other checks
            yield Finding(Level.UNKNOWN, "leases", f"{point.name} cannot be queried: {type(error).__name__}: {error}")
    kept = [lease for lease in leases if lease.owner in ended]
    for lease in kept:
        reason, failed = ended[lease.owner]
        found = f"{lease.id!r} holds {counted(lease.count - lease.settled, 'message')}: {reason}"
        verb = "expire" if failed else "release"
        yield Finding(Level.WARN, "leases", found, f"rmq {verb} {queue} '{lease.id}' --owner '{lease.owner}'")
    if not kept:
        yield Finding(Level.OK, "leases", f"{counted(len(leases), 'lease')}, none whose holder is known to have ended")


_MARKS = {
    Level.OK: ("✔", "green"),
    Level.WARN: ("!", "yellow"),
    Level.FAIL: ("✘", "bold red"),
    Level.UNKNOWN: ("?", "dim"),
}
_LISTED = 1000
_Name = Annotated[
    str | None,
    argument(
        help="A queue to check as well. Name one if your user may access the keys of some queues only.",
        metavar="[QUEUE]",
    ),
]


def doctor(queue: _Name = None, *, at: At) -> None:
    """Check a server and its queues: version, persistence, memory, permissions, clients, formats; change nothing.

    The exit code is 1 when something must be changed. It queries Airflow and Dagster if they are installed and
    configured here, and warns of settings of theirs that stop queues. For a named queue, it reports whether the queue
    is paused, which programs pass other settings than those stored with it, whether all of its shards answer and know
    how many there are, and which leases have a holder that has ended.
    """
    with connected(at.url) as server:
        known = at.discipline or _discipline_of(server, queue)
        spread = queue is not None and in_shards(server, queue, known)
        findings = examine(server.ask(gather(needed(known, queue, in_shards=spread))))
        findings += [*_formats(server, queue, known), *examine_orchestrators()]
        if queue is not None:
            findings += _of_queue(server, queue, known)
        where = str(server.settings)
    failed = any(finding.level == Level.FAIL for finding in findings)
    if at.as_json:
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
        try:
            found = list(examine_settings(opened)) if can(opened, "settings") else []
            found += (shards := list(examine_shards(opened)))
            if any(each.level == Level.FAIL for each in shards):
                return found  # what follows asks all shards
            if can(opened, "leases"):
                found += [examine_pause(opened), *examine_leases(queue, opened.admin.leases(_LISTED))]
            return found
        except FormatMismatch:  # another finding names the format and the version to install
            return []
        except (ScriptFailed, WrongKeyType) as error:  # the user lacks a permission; another finding names it
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
