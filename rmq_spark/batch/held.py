"""The parts of a batch, one lease or one for each shard with work, which are claimed, read and named together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any

from rmq_core import Batch, ConfigurationError, LeaseAlreadySettled, LeasedQueue, LeaseLost, RedisMessageQueueError
from rmq_core.reports import LeaseInfo
from rmq_spark.read.lease import LeaseSlice, plan

LONGEST_NAME = 200


class ShardBatch(Batch):
    """The messages of one lease: those of the only queue, or of one shard."""

    queue: LeasedQueue


def slices_of(held: Sequence[ShardBatch], infos: Sequence[LeaseInfo], parts: int) -> list[LeaseSlice]:
    """Return the messages of all leases in about `parts` slices, at least one for each lease. Raises LeaseLost."""
    count = sum(info.count for info in infos)
    shares = [max(1, parts * info.count // count) for info in infos]
    return [
        piece
        for each, info, share in zip(held, infos, shares, strict=True)
        for piece in plan(each.queue, each.lease, info, share)
    ]


def name_of(leases: Sequence[LeaseInfo]) -> str:
    """Return a name unique to this claim: the id of each lease and the time of its claim, which no takeover changes.

    The id alone is not unique: after a lease expired or was nacked, a new claim can use its id for other messages.
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
) -> list[ShardBatch]:
    """Claim leases `<lease_id>/s<k>` of the shards that have work, of about the same number of messages each.

    If an earlier attempt left leases, take over only these: a retry gets the messages that it had, and no others. When
    one claim fails, the others are released, or with `keep` left to the next attempt. If an earlier attempt has begun
    to ack, also if it does so meanwhile, ack the rest and raise LeaseAlreadySettled.
    """
    if wait:
        raise ConfigurationError(
            "wait: a batch of shards cannot wait, because no call waits for several queues at once; claim again when"
            " the block has found no messages"
        )
    names = {} if lease_id is None else {queue: f"{lease_id}/s{number}" for number, queue in enumerate(shards)}
    left = _left(lease_id, names) if lease_id is not None else []
    held: list[ShardBatch] = []
    try:
        for number, queue in enumerate(left or shards):
            rest = max_messages - sum(map(len, held))
            share = max_messages if left else -(-rest // (len(shards) - number))  # of the remaining number, rounded up
            lease = queue.claim(max_messages=share, lease_id=names.get(queue), **claim) if share else None
            held += [ShardBatch(queue, lease)] if lease else []
    except Exception as error:
        if left and lease_id is not None and isinstance(error, LeaseAlreadySettled):
            _left(lease_id, names)
        for each in held if not keep else ():
            with suppress(RedisMessageQueueError):
                each.give_back()
        raise
    return held


def _left(lease_id: str, names: dict[LeasedQueue, str]) -> list[LeasedQueue]:
    """Return the shards where an earlier attempt holds a lease.

    If a shard of the batch is acked, its block succeeded: ack the other shards too and raise LeaseAlreadySettled.
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
