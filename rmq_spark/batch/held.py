"""The leases that a batch holds, one, or one for each shard: read together, kept together, named together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from hashlib import sha256
from typing import NamedTuple

from rmq_core import Lease, LeasedQueue, LeaseLost
from rmq_spark.read.lease import LeaseSlice, plan

LONGEST_NAME = 200


class HeldLease(NamedTuple):
    """A lease, and the queue that its messages are of."""

    queue: LeasedQueue
    lease: Lease


def slices_of(held: Sequence[HeldLease], parts: int) -> list[LeaseSlice]:
    """The messages of all leases in about `parts` slices, at least one for each lease. Raises LeaseLost."""
    count = sum(lease.count for _, lease in held)
    return [piece for queue, lease in held for piece in plan(queue, lease, max(1, parts * lease.count // count))]


@contextmanager
def beating(
    held: Sequence[HeldLease], by: timedelta | float | None, on_lost: Callable[[Lease], object]
) -> Iterator[None]:
    """Heartbeats for all leases while the block runs."""
    with ExitStack() as beats:
        for queue, lease in held:
            beats.enter_context(queue.hold(lease, by, on_lost=on_lost))
        yield


def name_of(held: Sequence[HeldLease]) -> str:
    """A name that no other claim has: of each lease its id, and when it was claimed, which no takeover changes.

    The id alone would not do: a lease that expired or was nacked is claimed again under it, with other messages.
    Raises LeaseLost.
    """
    name = "+".join(f"{each.lease.id}@{_claimed_ms(each)}" for each in held)
    return name if len(name) <= LONGEST_NAME else sha256(name.encode()).hexdigest()


def _claimed_ms(held: HeldLease) -> int:
    info = held.queue.lease_info(held.lease.id)
    if info is None:
        raise LeaseLost(held.lease.id)
    return round(info.claimed_at.timestamp() * 1000)
