"""One logical queue in N parts: shard k of `orders` is the queue `orders/s<k>-<n>`.

A queue lives in one slot of a cluster, so one node does all its work; shards spread the work over the nodes. The number
n is chosen for the slot of the name, so that the shards divide the slots evenly, as nodes do. Each shard
is an ordinary queue, with an order, a deduplication and dead letters of its own. Only one guarantee holds across them:
a deduplication key always goes to the same shard, as long as the number of shards stays the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, cycle, islice
from typing import Any, TypeAlias
from zlib import crc32

from redis.crc import REDIS_CLUSTER_HASH_SLOTS as SLOTS
from redis.crc import key_slot

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, NewMessage, RedisSettings

Payload: TypeAlias = str | bytes | dict[str, Any] | list[Any]


MOST = 1024
"""The time to find the names grows with the square of the number of shards: 2 s for this many."""


def shard_names(queue: str, shards: int) -> list[str]:
    """Return the names of the queues that make up a logical queue. Raises ConfigurationError.

    They depend on the number of shards: let all shards run empty before you change it.
    """
    if not isinstance(shards, int) or not 1 <= shards <= MOST:
        raise ConfigurationError(f"shards must be a whole number from 1 to {MOST:,}, not {shards!r}")
    return [_name_in(SLOTS / shards, f"{queue}/s{number}", number) for number in range(shards)]


def _name_in(share: float, start: str, number: int) -> str:
    """Return the first name whose slot is in the middle quarter of a shard's share of the slots.

    So it stays on one node with its share where the number of nodes divides that of shards, and near it elsewhere.
    """
    names = (f"{start}-{suffix}" for suffix in count())
    return next(name for name in names if abs(key_slot(name.encode()) / share - number - 0.5) <= 1 / 8)


@contextmanager
def open_shards(
    settings: RedisSettings, queue: str, shards: int, config: LeasedConfig | None = None
) -> Iterator[list[LeasedQueue]]:
    """Open the queues that make up a logical queue, over one client."""
    names = shard_names(queue, shards)
    with ExitStack() as ends:
        client = settings.client()
        ends.callback(client.close)
        yield [ends.enter_context(LeasedQueue(client, name, config)) for name in names]


class Router:
    """Choose a shard for each message: by its deduplication key, else round-robin from shard `first` on."""

    def __init__(self, shards: int, first: int = 0) -> None:
        self._shards = shards
        self._turns = islice(cycle(range(shards)), first % shards, None)

    def shard_of(self, message: Payload | NewMessage) -> int:
        """Return the number of the shard. All publishers, now and later, must map keys alike, hence no `hash`."""
        key = message.dedup_key if isinstance(message, NewMessage) else None
        if key is None:
            return next(self._turns)
        return crc32(key.encode() if isinstance(key, str) else key) % self._shards

    def sorted(self, messages: Iterable[Payload | NewMessage]) -> dict[int, list[Payload | NewMessage]]:
        """Return the messages grouped by shard, in order."""
        found: defaultdict[int, list[Payload | NewMessage]] = defaultdict(list)
        for message in messages:
            found[self.shard_of(message)].append(message)
        return found
