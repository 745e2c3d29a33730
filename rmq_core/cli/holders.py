"""Queries the orchestrators installed beside RMQ: which holders have ended, and which settings are wrong.

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

from rmq_core.cli.checks import Finding, Level
from rmq_core.cli.output import counted
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
