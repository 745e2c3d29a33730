"""`Counting`: what an engine without events notes for the history of its queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmq_core.errors import LeaseLost
from rmq_core.events import Operation
from rmq_core.exchange import Exchange
from rmq_core.messages import Lease
from rmq_core.queue.actions import action
from rmq_core.queue.tally import Tally
from rmq_core.reports import SettleReport


class Counting:
    """The part of an engine that counts. `tally` is None if this client does not record; then nothing is noted."""

    __slots__ = ()
    tally: Tally | None

    def tell(self, operation: Operation, count: int) -> None:
        """Count messages that something happened to."""
        if count > 0 and self.tally is not None:
            self.tally.noted.append((operation, count))

    def claimed(self, lease: Lease, lease_ms: int) -> Lease:
        """Count a claim and how long its messages have waited. Return the lease."""
        if self.tally is not None:
            self.tally.claimed(lease, lease_ms)
        return lease

    def taken(self, lease: Lease) -> Lease:
        """Count a takeover or an adoption. Return the lease."""
        self.tell(Operation.TAKEOVER, lease.count)
        if self.tally is not None:
            self.tally.taken(lease)
        return lease

    def settled(self, verb: str, lease: Lease, settling: Exchange[SettleReport]) -> Exchange[SettleReport]:
        """Settle a lease, or some of its messages, and count what became of them. verb: ack, nack or release."""
        try:
            report = yield from settling
        except LeaseLost:
            self.tell(Operation.LOST, lease.count)
            raise
        if self.tally is not None:
            if report.settled:
                self.tally.ended(Operation(verb), report.settled, lease)
            self.tell(Operation.DEAD, report.dead)
        return report

    def redriven(self, count: int) -> None:
        """Count dead letters that were made ready, and mark it."""
        self.tell(Operation.REDRIVE, count)
        if count:
            self.mark("redrive", str(count))

    def mark(self, kind: str, text: str = "") -> None:
        """Mark in the history what an operator did."""
        if self.tally is not None:
            self.tally.mark(kind, text)

    def acted(self, kind: str, count: int, ids: Sequence[str]) -> None:
        """Mark what an operator did to messages; nothing happens for a count of 0."""
        if count > 0 and self.tally is not None:
            self.tally.acted(action(kind, in_journal=True), count, ids)

    def keep(self, result: Any) -> None:
        """Leave a lease that the caller does not get until its deadline."""
