"""`rmq release`: releases the messages of a lease that its holder will not settle any more."""

from __future__ import annotations

from typing import Annotated

import typer

from rmq_core.cli.opening import connected
from rmq_core.cli.options import LOCAL, Discipline, Json, Queue, Url
from rmq_core.cli.output import counted, emit, say

_Lease = Annotated[
    str, typer.Argument(help="Id of the lease, as `rmq leases` shows it.", show_default=False, metavar="LEASE")
]
_Owner = Annotated[
    str | None,
    typer.Option(
        "--owner", help="Release only if this is still its owner: a retry may have taken it over.", show_default=False
    ),
]


def release(
    queue: Queue,
    lease: _Lease,
    *,
    owner: _Owner = None,
    url: Url = LOCAL,
    discipline: Discipline = None,
    as_json: Json = False,
) -> None:
    """Make the messages of a lease ready again without counting a delivery; its holder can no longer settle them."""
    with connected(url) as server, server.queue(queue, discipline) as opened:
        count = opened.admin.release_lease(lease, if_owner=owner).settled
    if as_json:
        emit({"queue": queue, "lease": lease, "released": count})
    else:
        say(f"released {counted(count, 'message')} of {queue}")
