"""The leases that a batch holds, one, or one for each shard with work: claimed, read and named together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from rmq_core import (
    ConfigurationError,
    Lease,
    LeaseAlreadySettled,
    LeasedQueue,
    LeaseInfo,
    LeaseLost,
    RedisMessageQueueError,
)
from rmq_spark.read.lease import LeaseSlice, plan

LONGEST_NAME = 200


class HeldLease(NamedTuple):
    """A lease, and the queue that its messages are of."""

    queue: LeasedQueue
    lease: Lease


def slices_of(held: Sequence[HeldLease], infos: Sequence[LeaseInfo], parts: int) -> list[LeaseSlice]:
    """The messages of all leases in about `parts` slices, at least one for each lease. Raises LeaseLost."""
    count = sum(info.count for info in infos)
    shares = [max(1, parts * info.count // count) for info in infos]
    return [piece for each, info, share in zip(held, infos, shares, strict=True) for piece in plan(*each, info, share)]


def name_of(leases: Sequence[LeaseInfo]) -> str:
    """A name that no other claim has: of each lease its id, and when it was claimed, which no takeover changes.

    The id alone would not do: a lease that expired or was nacked is claimed again under it, with other messages.
    """
    name = "+".join(f"{info.id}@{round(info.claimed_at.timestamp() * 1000)}" for info in leases)
    return name if len(name) <= LONGEST_NAME else sha256(name.encode()).hexdigest()


def claim_shards(
    shards: Sequence[LeasedQueue],
    *,
    max_messages: int,
    lease_id: str | None = None,
    wait: float | timedelta = 0,
    keep: bool = False,
    **claim: Any,
) -> list[HeldLease]:
    """The leases `<lease_id>/s<k>` of the shards that have work, of about the same number of messages each.

    If an earlier try left any, these alone: a retry gets the messages that it had, and no others. When one of them
    cannot be had, the others are released, or left to the next try with `keep`. Raises LeaseAlreadySettled when an
    earlier try had begun to ack, after acking what that left.
    """
    if wait:
        raise ConfigurationError(
            "wait: a batch of shards does not wait, for there is no waiting for any of several queues; claim again"
            " when the block found nothing"
        )
    names = {} if lease_id is None else {queue: f"{lease_id}/s{number}" for number, queue in enumerate(shards)}
    left = _left(lease_id, names) if lease_id is not None else []
    held: list[HeldLease] = []
    try:
        for number, queue in enumerate(left or shards):
            rest = max_messages - sum(lease.count for _, lease in held)
            share = max_messages if left else -(-rest // (len(shards) - number))  # of what is still wanted, rounded up
            lease = queue.claim(max_messages=share, lease_id=names.get(queue), **claim) if share else None
            held += [HeldLease(queue, lease)] if lease else []
    except Exception:
        for queue, lease in held if not keep else ():
            with suppress(RedisMessageQueueError):
                queue.release(lease)
        raise
    return held


def _left(lease_id: str, names: dict[LeasedQueue, str]) -> list[LeasedQueue]:
    """The shards where an earlier try holds a lease.

    Of a batch of which a shard is acked, which only a block that succeeded does, the rest is acked too.
    """
    left = [queue for queue, name in names.items() if queue.lease_info(name)]
    records = [record for queue, name in names.items() if (record := queue.settled(name))]
    if not records:
        return left
    rest = 0
    for queue in left:
        with suppress(LeaseLost, LeaseAlreadySettled):
            rest += queue.ack(queue.adopt(names[queue])).settled
    raise LeaseAlreadySettled(lease_id, rest + sum(record.acked for record in records))
