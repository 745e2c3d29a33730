"""Which holders of leases have ended, as far as the orchestrators installed beside RMQ know.

A package says so through the entry point group `rmq.holders`: a function from owners to the reason for each that has
ended. What an orchestrator cannot be asked for here, such as a database that is not configured, it leaves out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import redirect_stdout
from importlib.metadata import entry_points

from rmq_core.cli.checks import Finding, Level
from rmq_core.cli.output import counted
from rmq_core.reports import LeaseInfo

GROUP = "rmq.holders"
Ended = Callable[[Collection[str]], Mapping[str, str]]


def examine_leases(queue: str, leases: Collection[LeaseInfo]) -> Iterator[Finding]:
    """What is wrong with the leases of a queue: their holder has ended, and nobody will take them over."""
    owners = {lease.owner for lease in leases if lease.owner}
    ended: dict[str, str] = {}
    for point in entry_points(group=GROUP) if owners else ():
        try:
            with redirect_stdout(sys.stderr):  # Airflow logs to stdout, which is for data here
                ask: Ended = point.load()
                ended |= ask(owners)
        except Exception as error:  # noqa: BLE001  whatever ails an orchestrator, the other checks count
            yield Finding(Level.UNKNOWN, "leases", f"{point.name} cannot be asked: {type(error).__name__}: {error}")
    kept = [lease for lease in leases if lease.owner in ended]
    for lease in kept:
        found = f"{lease.id!r} holds {counted(lease.count - lease.settled, 'message')}: {ended[lease.owner]}"
        yield Finding(Level.WARN, "leases", found, f"rmq release {queue} '{lease.id}' --owner '{lease.owner}'")
    if not kept:
        yield Finding(Level.OK, "leases", f"{counted(len(leases), 'lease')}, none whose holder is known to have ended")
