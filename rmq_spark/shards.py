"""One logical queue in N parts: shard k of `orders` is the queue `orders/s<k>`.

A queue lives in one slot of a cluster, so that one node does all its work; shards spread that over the nodes. Each is a
queue as any other, with an order, a deduplication and dead letters of its own. What holds across them is little: a
deduplication key always goes to the same shard, as long as their number stays the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from itertools import cycle, islice
from typing import Any, TypeAlias
from zlib import crc32

from rmq_core import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeasedConfig,
    LeasedQueue,
    LeaseLost,
    NewMessage,
    RedisMessageQueueError,
    RedisSettings,
)
from rmq_spark.columns import Payload
from rmq_spark.holding import Held

Named: TypeAlias = tuple[LeasedQueue, str]
"""A shard, and the id of the batch's lease there."""


def shard_names(queue: str, shards: int) -> list[str]:
    """The queues that make up a logical queue. Raises ConfigurationError."""
    if not isinstance(shards, int) or shards < 1:
        raise ConfigurationError(f"shards must be a whole number >= 1, not {shards!r}")
    return [f"{queue}/s{number}" for number in range(shards)]


@contextmanager
def open_shards(
    settings: RedisSettings, queue: str, shards: int, config: LeasedConfig | None = None
) -> Iterator[list[LeasedQueue]]:
    """The queues that make up a logical queue, over one client."""
    names = shard_names(queue, shards)
    with ExitStack() as ends:
        client = settings.client()
        ends.callback(client.close)
        yield [ends.enter_context(LeasedQueue(client, name, config)) for name in names]


class Router:
    """Chooses a shard for each message: by its deduplication key, else all of them in turn from `first` on."""

    def __init__(self, shards: int, first: int = 0) -> None:
        self._shards = shards
        self._turns = islice(cycle(range(shards)), first % shards, None)

    def shard_of(self, message: Payload | NewMessage) -> int:
        """The number of the shard. Publishers of all times must agree on those of keys, hence no `hash`."""
        key = message.dedup_key if isinstance(message, NewMessage) else None
        if key is None:
            return next(self._turns)
        return crc32(key.encode() if isinstance(key, str) else key) % self._shards

    def sorted(self, messages: Iterable[Payload | NewMessage]) -> dict[int, list[Payload | NewMessage]]:
        """Messages by their shard, in order."""
        found: defaultdict[int, list[Payload | NewMessage]] = defaultdict(list)
        for message in messages:
            found[self.shard_of(message)].append(message)
        return found


def claim_shards(
    shards: Sequence[LeasedQueue],
    *,
    max_messages: int,
    lease_id: str | None = None,
    wait: float | timedelta = 0,
    keep: bool = False,
    **claim: Any,
) -> list[Held]:
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
    held: list[Held] = []
    try:
        for number, (queue, name) in enumerate(left or parts):
            wanted = max_messages if left else _share(max_messages, held, len(parts) - number)
            lease = queue.claim(max_messages=wanted, lease_id=name, **claim) if wanted else None
            held += [Held(queue, lease)] if lease else []
    except Exception:
        for each in held if not keep else ():
            with suppress(RedisMessageQueueError):
                each.queue.release(each.lease)
        raise
    return held


def _share(most: int, held: Sequence[Held], shards: int) -> int:
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
