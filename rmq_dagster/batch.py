"""`ClaimedBatch`: the messages that a step works on under one lease."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from rmq_core import Batch, Lease, LeaseAlreadySettled, LeasedQueue
from rmq_core.work import OnSettled, check_on_settled
from rmq_dagster import runs
from rmq_dagster.claiming import check_batch, claim, shortened
from rmq_dagster.console_link import console_link
from rmq_dagster.ending import concluding


class ClaimedBatch(Batch):
    """A Batch of a step, with metadata for its result; empty, and false, when nothing was ready.

    Messages that are neither acked, nacked nor released in the block are acked when it ends. When it raises they are
    nacked, unless Dagster will retry: then the retry takes them over. `acked_before`: how many messages an earlier run
    of this step acked. `asked`: the maximum that the step requested.
    """

    def __init__(
        self, queue: LeasedQueue, lease: Lease | None, acked_before: int | None = None, *, asked: int = 0
    ) -> None:
        super().__init__(queue, lease)
        self._started = time.monotonic()
        self.acked_before, self.asked = acked_before, asked

    @property
    def metadata(self) -> dict[str, Any]:
        """Return metadata for the step's result: queue, lease, count, seconds held, why isolation shortened a claim.

        With `RMQ_CONSOLE`, `rmq/console` and `rmq/lease` link to queue and lease in the console of `rmq serve`.
        """
        links = console_link(self.queue.name, None if self._lease is None else self._lease.id)
        values: dict[str, Any] = {"rmq/queue": self.queue.name, "rmq/claimed": len(self), **links}
        if self._lease is not None:
            values |= {"rmq/lease_id": self._lease.id, "rmq/seconds": round(time.monotonic() - self._started, 3)}
            values |= shortened(self._lease, self.asked)
        return values | ({} if self.acked_before is None else {"rmq/acked_before": self.acked_before})


B = TypeVar("B", bound=ClaimedBatch)


@dataclass(frozen=True, slots=True)
class Terms:
    """How many messages a step claims, and how it proceeds when all messages of its lease are acked already.

    sequential: it settles each message before it begins the next, so that a kill is blamed on one message.
    """

    max_messages: int = 1000
    on_settled: OnSettled = "skip"
    sequential: bool = False

    def __post_init__(self) -> None:
        check_batch("max_messages", self.max_messages)
        check_on_settled(self.on_settled)


@contextmanager
def working(context: runs.StepContext, queue: LeasedQueue, terms: Terms) -> Iterator[ClaimedBatch]:
    """Claim, send heartbeats while the block runs, and settle according to how it ends."""
    batch = claimed(context, queue, terms, ClaimedBatch)
    if not batch:
        yield batch
        return
    with concluding(context, batch, queue.config), queue.hold(batch.lease):
        yield batch
        batch.finish()


def claimed(context: runs.StepContext, queue: LeasedQueue, terms: Terms, kind: type[B]) -> B:
    """Return the batch of a step; an empty one when nothing is ready or its messages were acked before."""
    try:
        lease = claim(context, queue, **dataclasses.asdict(terms))
    except LeaseAlreadySettled as settled:
        context.log.info("All messages of lease %r were acked before: %d message(s)", settled.lease_id, settled.acked)
        return kind(queue, None, settled.acked, asked=terms.max_messages)
    return kind(queue, lease, asked=terms.max_messages)
