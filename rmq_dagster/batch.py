"""`ClaimedBatch`: the messages that a step works on under one lease.

A message is settled the moment its verdict is spoken; what nobody spoke about is settled by how the block ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rmq_core import (
    ConfigurationError,
    Lease,
    LeaseAlreadySettled,
    LeasedQueue,
    LeaseLost,
    Message,
    Outcome,
    SettleReport,
)
from rmq_dagster import runs
from rmq_dagster.claiming import OnSettled, check_batch, check_on_settled, claim, shortened
from rmq_dagster.ending import concluding

GONE = {Outcome.LOST, Outcome.MISSING}


class ClaimedBatch:
    """Messages under one lease, in order; empty, and false, when nothing was ready.

    Those that are neither acked, nacked nor released in the block are acked when it ends and nacked when it raises,
    unless Dagster will retry: then the retry gets them back. `acked_before`: what an earlier run of this step acked.
    `asked`: how many messages were asked for, at most.
    """

    def __init__(
        self, queue: LeasedQueue, lease: Lease | None, acked_before: int | None = None, *, asked: int = 0
    ) -> None:
        self._queue, self._lease, self._started = queue, lease, time.monotonic()
        self.acked_before, self.asked = acked_before, asked

    @property
    def lease(self) -> Lease:
        """The lease; an empty batch has none."""
        if self._lease is None:
            raise ConfigurationError(f"nothing of {self._queue.name!r} was claimed; ask `if batch:` before its lease")
        return self._lease

    def __len__(self) -> int:
        return 0 if self._lease is None else self._lease.count

    def __iter__(self) -> Iterator[Message]:
        """The messages that are not settled yet; a large batch is read in slices."""
        return iter(()) if self._lease is None else self._queue.messages(self._lease)

    @property
    def payloads(self) -> list[Any]:
        """What was published, of the messages that are not settled yet."""
        return [message.payload for message in self]

    @property
    def metadata(self) -> dict[str, Any]:
        """For the result of the step: queue, lease id, how many were claimed, seconds since, and why so few if so."""
        told: dict[str, Any] = {"rmq/queue": self._queue.name, "rmq/claimed": len(self)}
        if self._lease is not None:
            told |= {"rmq/lease_id": self._lease.id, "rmq/seconds": round(time.monotonic() - self._started, 3)}
            told |= shortened(self._lease, self.asked)
        return told | ({} if self.acked_before is None else {"rmq/acked_before": self.acked_before})

    def ack(self, *messages: Message) -> None:
        """These are done, whatever becomes of the others. Raises LeaseLost."""
        if messages:
            self._spoken(self._queue.ack(self.lease, messages))

    def nack(self, *messages: Message, reason: str | None = None, delay: timedelta | float | None = None) -> None:
        """These failed: back into the queue after `delay` (its backoff when None), or a dead letter. LeaseLost."""
        if messages:
            self._spoken(self._queue.nack(self.lease, messages, reason=reason, delay=delay))

    def release(self, *messages: Message) -> None:
        """These were not tried: back into the queue, without a delivery being counted. Raises LeaseLost."""
        if messages:
            self._spoken(self._queue.release(self.lease, messages))

    def check(self) -> None:
        """Raise LeaseLost when the lease is known to be gone; call it before a step that cannot be undone."""
        if self._lease is not None:
            self._lease.check()

    def finish(self) -> None:
        """The work ended well: ack what nobody spoke about. Raises LeaseLost."""
        self.check()
        if not self.lease.fate.settled:
            self._queue.ack(self.lease)

    def keep(self, seconds: float) -> bool:
        """Hold what is left for a retry. False: nothing was left."""
        return self._open and _in_time(lambda: self._queue.extend(self.lease, seconds))

    def give_up(self, reason: str) -> bool:
        """The last try failed: nack what is left. False: nothing was left."""
        return self._open and _in_time(lambda: self._queue.nack(self.lease, reason=reason))

    def give_back(self) -> bool:
        """Nobody's fault: release what is left. False: nothing was left."""
        return self._open and _in_time(lambda: self._queue.release(self.lease))

    @property
    def _open(self) -> bool:
        return not self.lease.fate.settled

    def _spoken(self, report: SettleReport) -> None:
        if GONE & set(report.outcomes):
            raise LeaseLost(self.lease.id)


@dataclass(frozen=True, slots=True)
class Terms:
    """How much a step claims, and what it does when everything under its name is acked already."""

    max_messages: int = 1000
    on_settled: OnSettled = "skip"

    def __post_init__(self) -> None:
        check_batch("max_messages", self.max_messages)
        check_on_settled(self.on_settled)


@contextmanager
def working(context: runs.StepContext, queue: LeasedQueue, terms: Terms) -> Iterator[ClaimedBatch]:
    """Claim, heartbeat while the block runs, and settle by how it ends."""
    batch = _claimed(context, queue, terms)
    if not batch:
        yield batch
        return
    with concluding(context, batch, queue.config), queue.hold(batch.lease):
        yield batch
        batch.finish()


def _claimed(context: runs.StepContext, queue: LeasedQueue, terms: Terms) -> ClaimedBatch:
    try:
        lease = claim(context, queue, max_messages=terms.max_messages, on_settled=terms.on_settled)
    except LeaseAlreadySettled as settled:
        context.log.info("Everything of %r was acked before: %d message(s)", settled.lease_id, settled.acked)
        return ClaimedBatch(queue, None, settled.acked, asked=terms.max_messages)
    return ClaimedBatch(queue, lease, asked=terms.max_messages)


def _in_time(settle: Callable[[], object]) -> bool:
    try:
        settle()
    except LeaseLost:
        return False
    return True
