"""`rmq expire`, `rmq run-now` and `rmq cancel`: end a lease or a delay before its time, or remove a message."""

from __future__ import annotations

import time
from typing import Annotated, Any, cast

import typer

from rmq_core.cli.confirmation import confirm
from rmq_core.cli.failures import Exit
from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Queue, Settings, Url, Yes
from rmq_core.cli.output import ago, complain, counted, emit, say
from rmq_core.errors import ConfigurationError
from rmq_core.reports import LeaseInfo

_Lease = Annotated[
    str, typer.Argument(help="Id of the lease, as `rmq leases` shows it.", show_default=False, metavar="LEASE")
]
_Owner = Annotated[
    str | None,
    typer.Option(
        "--owner", help="Expire only if this is still its owner: a retry may have taken it over.", show_default=False
    ),
]
_Ids = Annotated[list[str], typer.Argument(help="Ids of delayed messages.", show_default=False, metavar="ID...")]
_Waiting = Annotated[
    list[str], typer.Argument(help="Ids of ready or delayed messages.", show_default=False, metavar="ID...")
]
_Key = Annotated[
    str | None,
    typer.Option(
        "--dedup-key",
        help="Also free this deduplication key, which the publisher named: no message keeps its own. For one ID.",
        show_default=False,
    ),
]


def expire(
    queue: Queue,
    lease: _Lease,
    *,
    owner: _Owner = None,
    yes: Yes = False,
    settings: Settings = None,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """End a lease now, as if its deadline had passed: the delivery counts, and its holder can no longer settle it.

    Use it when the holder failed; `rmq release` counts no delivery. Set max_deliveries as the consumers do.
    """
    with connected(url) as server, server.queue(queue, discipline, settings) as opened:
        expire_lease, reader = opened.admin.expire_lease, cast("Any", opened)
        info = None if yes else reader.lease_info(lease)
        if info is not None:
            confirm(f"Expire {_described(info)} of {queue} ({opened.discipline}) on {server.settings}?")
        report = expire_lease(lease, if_owner=owner)
    if as_json:
        emit({"queue": queue, "lease": lease, "expired": report.settled, "dead": report.dead})
        return
    died = f", of which {report.dead:,} became dead letters" if report.dead else ""
    say(f"gave back {counted(report.settled, 'message')} of {queue}{died}")


def run_now(queue: Queue, ids: _Ids, *, url: Url = LOCAL, discipline: Discipline = None, as_json: Json = False) -> None:
    """Make delayed messages ready now. The exit code is 1 if one of them is not delayed."""
    with connected(url) as server, server.queue(queue, discipline) as opened:
        missing = [each for each in ids if not opened.admin.run_now(each)]
    if as_json:
        emit({"queue": queue, "ready": len(ids) - len(missing), "missing": missing})
    else:
        say(f"{counted(len(ids) - len(missing), 'message')} of {queue} ready now")
    _fail_for(missing, "not delayed")


def cancel(
    queue: Queue,
    ids: _Waiting,
    *,
    dedup_key: _Key = None,
    yes: Yes = False,
    settings: Settings = None,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """Remove ready or delayed messages. The exit code is 1 if a message is neither, for example because it is leased.

    Set dedup as the publishers do, so that an equal message can be published again at once.
    """
    if dedup_key is not None and len(ids) > 1:
        raise ConfigurationError("--dedup-key is the key of one message: name one ID")
    with connected(url) as server, server.queue(queue, discipline, settings) as opened:
        remove = opened.admin.cancel
        if not yes:
            confirm(f"Remove {counted(len(ids), 'message')} of {queue} ({opened.discipline}) on {server.settings}?")
        missing = [each for each in ids if not remove(each, dedup_key=dedup_key)]
    if as_json:
        emit({"queue": queue, "cancelled": len(ids) - len(missing), "missing": missing})
    else:
        say(f"removed {counted(len(ids) - len(missing), 'message')} of {queue}")
    _fail_for(missing, "neither ready nor delayed")


def _fail_for(missing: list[str], why: str) -> None:
    """Name the messages that the command could not change, and end with the exit code of a failure."""
    if missing:
        complain(f"{why}: {', '.join(missing)}")
        raise typer.Exit(Exit.FAILED)


def _described(lease: LeaseInfo) -> str:
    """Describe a lease: who holds how much, since when, and for how long."""
    now = time.time()
    since = ago(now - lease.claimed_at.timestamp())
    left = None if lease.deadline is None else lease.deadline.timestamp() - now
    ends = "which never ends" if left is None else f"which ends in {ago(max(0, left))}"
    held = counted(lease.count - lease.settled, "message")
    return f"the lease {lease.id!r}, {ends}; {lease.owner or 'somebody'} holds {held} since {since};"
