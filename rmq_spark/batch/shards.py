"""Claiming from all shards of a logical queue: one lease in each that has work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeAlias

from rmq_core import ConfigurationError, LeaseAlreadySettled, LeasedQueue, LeaseLost, RedisMessageQueueError
from rmq_spark.batch.held import HeldLease

Named: TypeAlias = tuple[LeasedQueue, str]
"""A shard, and the id of the batch's lease there."""


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
    left: list[Named] = []
    parts: Sequence[tuple[LeasedQueue, str | None]] = [(queue, None) for queue in shards]
    if lease_id is not None:
        parts = named = [(queue, f"{lease_id}/s{number}") for number, queue in enumerate(shards)]
        _finish(lease_id, named)
        left = _left(named)
    held: list[HeldLease] = []
    try:
        for number, (queue, name) in enumerate(left or parts):
            wanted = max_messages if left else _share(max_messages, held, len(parts) - number)
            lease = queue.claim(max_messages=wanted, lease_id=name, **claim) if wanted else None
            held += [HeldLease(queue, lease)] if lease else []
    except Exception:
        for each in held if not keep else ():
            with suppress(RedisMessageQueueError):
                each.queue.release(each.lease)
        raise
    return held


def _share(most: int, held: Sequence[HeldLease], shards: int) -> int:
    """What one of so many shards is to give of what is still wanted, rounded up."""
    return -(-(most - sum(lease.count for _, lease in held)) // shards)


def _left(parts: Sequence[Named]) -> list[Named]:
    """The shards where an earlier try holds a lease."""
    return [(queue, name) for queue, name in parts if queue.lease_info(name)]


def _finish(lease_id: str, parts: Sequence[Named]) -> None:
    """Ack the rest of a batch of which a shard is acked: only a block that succeeded does that."""
    records = [record for queue, name in parts if (record := queue.settled(name))]
    if not records:
        return
    rest = 0
    for queue, name in _left(parts):
        with suppress(LeaseLost, LeaseAlreadySettled):
            rest += queue.ack(queue.adopt(name)).settled
    raise LeaseAlreadySettled(lease_id, rest + sum(record.acked for record in records))
