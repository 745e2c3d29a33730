"""The leases that a batch holds, one, or one for each shard: read together and kept together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import NamedTuple

from rmq_core import Lease, LeasedQueue
from rmq_spark.reader import BatchSlice, plan


class Held(NamedTuple):
    """A lease, and the queue that its messages are of."""

    queue: LeasedQueue
    lease: Lease


def slices_of(held: Sequence[Held], parts: int) -> list[BatchSlice]:
    """The messages of all leases in about `parts` slices, at least one for each lease. Raises LeaseLost."""
    count = sum(lease.count for _, lease in held)
    return [piece for queue, lease in held for piece in plan(queue, lease, max(1, parts * lease.count // count))]


@contextmanager
def beating(held: Sequence[Held], by: timedelta | float | None, on_lost: Callable[[Lease], object]) -> Iterator[None]:
    """Heartbeats for all leases while the block runs."""
    with ExitStack() as beats:
        for queue, lease in held:
            beats.enter_context(queue.hold(lease, by, on_lost=on_lost))
        yield
