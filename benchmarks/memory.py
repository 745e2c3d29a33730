"""Bytes of server memory per message: ready, leased one by one, leased by the thousand; and per deduplication key.

A figure is the growth of `used_memory` divided by the count. Memory that is no data is excluded: no connection stays
open, scripts are flushed (newer servers count Lua's heap), and buffers that a server allocates once and keeps exist
from the start. The bare list is the ready list of the same envelopes; the overhead of an envelope over its payload is a
row of its own. Growth of Redis's own tables is part of every figure: their size doubles, so a key with an expiry costs
16 B more right after a doubling than right before it. The counts are chosen between two doublings.
"""

from __future__ import annotations

import time

import redis

from benchmarks.batches import BATCH
from benchmarks.figures import Figure, Findings, Spread
from benchmarks.loops import some
from benchmarks.payloads import SIZE, payloads
from rmq_core import LeasedConfig, LeasedQueue


def measure(port: int, count: int, version: str) -> Findings:
    """Measure each figure for `count` messages on the server at `port`."""
    memory = Memory(port, count)
    bare = memory.bare()
    ready = memory.ready()
    rows = (
        ("ready message over its payload in a bare list", ready - bare, f"bare list {bare:.0f} B, ready {ready:.0f} B"),
        ("anonymous lease of one over the bare list", memory.leased(1), ""),
        ("message in a lease of 1000 over the bare list", memory.leased(BATCH), ""),
        ("deduplication key", memory.dedup(), ""),
    )
    context = f"{count:,} messages of {SIZE} B"
    return Findings(
        [
            Figure(f"{name}, {version}", Spread.of([size]), "B", ", ".join(filter(None, (context, more))))
            for name, size, more in rows
        ]
    )


class Memory:
    """Fill an empty server and measure its growth."""

    def __init__(self, port: int, count: int) -> None:
        self.port, self.count = port, count
        self._publish(LeasedConfig(dedup=True))
        self._claim(BATCH)

    def bare(self) -> float:
        """Bytes of a payload in a list."""
        empty = self._used(flush=True)
        with redis.Redis(port=self.port) as client:
            for first in range(0, self.count, BATCH):
                client.lpush("memory-bare", *payloads(min(BATCH, self.count - first)))
        return (self._used() - empty) / self.count

    def ready(self) -> float:
        """Return the bytes of a ready message."""
        empty = self._used(flush=True)
        self._publish(LeasedConfig())
        return (self._used() - empty) / self.count

    def leased(self, size: int) -> float:
        """Return the additional bytes per message in leases of `size` messages."""
        self._used(flush=True)
        self._publish(LeasedConfig())
        waiting = self._used()
        self._claim(size)
        return (self._used() - waiting) / self.count

    def dedup(self) -> float:
        """Return the additional bytes per message published with deduplication."""
        plain = self.ready()
        empty = self._used(flush=True)
        self._publish(LeasedConfig(dedup=True))
        return (self._used() - empty) / self.count - plain

    def _publish(self, config: LeasedConfig) -> None:
        with redis.Redis(port=self.port) as client, LeasedQueue(client, "memory", config) as queue:
            queue.publish_many(payloads(self.count))

    def _claim(self, size: int) -> None:
        with redis.Redis(port=self.port) as client, LeasedQueue(client, "memory") as queue:
            for _ in range(0, self.count, size):
                some(queue.claim(max_messages=size, lease=3600))

    def _used(self, *, flush: bool = False) -> int:
        """Return the bytes in use, after the server has finished freeing and rehashing."""
        with redis.Redis(port=self.port) as client:
            if flush:
                client.flushall()
            client.script_flush("SYNC")
            seen = [-1, -2, -3]
            while len(set(seen)) > 1:  # Redis frees memory and resizes tables in the background
                time.sleep(0.15)
                seen = [*seen[1:], int(client.info("memory")["used_memory"])]
            return seen[0]
