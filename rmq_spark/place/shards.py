"""One logical queue in N parts: shard k of `orders` is the queue `orders/s<k>`.

A queue lives in one slot of a cluster, so one node does all its work; shards spread the work over the nodes. Each shard
is an ordinary queue, with an order, a deduplication and dead letters of its own. Only one guarantee holds across them:
a deduplication key always goes to the same shard, as long as the number of shards stays the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle, islice
from typing import Any, TypeAlias
from zlib import crc32

from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue, NewMessage, RedisSettings

Payload: TypeAlias = str | bytes | dict[str, Any] | list[Any]


def shard_names(queue: str, shards: int) -> list[str]:
    """Return the names of the queues that make up a logical queue. Raises ConfigurationError."""
    if not isinstance(shards, int) or shards < 1:
        raise ConfigurationError(f"shards must be a whole number >= 1, not {shards!r}")
    return [f"{queue}/s{number}" for number in range(shards)]


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
