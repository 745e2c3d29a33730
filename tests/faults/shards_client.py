"""A client of a queue in shards that publishes, consumes and changes the number of shards, and logs what it does.

`python -m tests.faults.shards_client <sync|async> <url> <log> <name>` goes on until it is killed. Now and then it
pauses beyond its lease.

A line of the log is `<verb> <ms> <payload> ...`: `sends` before messages are published, `stored` for those that were
accepted, `did` when messages were claimed, `tries` just before they are settled, `acked` for those of which that was
reported, `gave` for those that were released or nacked, `stale` for a settle that was refused. The part of a payload
before `/` is its deduplication key, which other clients use at the same time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
import time
from collections.abc import Iterable
from typing import Any

from rmq_core import Lease, LeaseAlreadySettled, LeasedConfig, LeasedQueue, LeaseLost
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue
from rmq_core.leased.shards import claiming

LEASE_S = 1.0
CONFIG = LeasedConfig(lease=LEASE_S, max_deliveries=None)
COUNTS = (1, 2, 3, 4, 8)
DOZES = 0.02
FEW = 8
"""A claim of more messages has parts in several shards."""


class Blocking:
    """A queue object of asyncio, whose calls are run to their end."""

    def __init__(self, inner: Any, runner: asyncio.Runner) -> None:
        self.inner, self.runner = inner, runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name == "admin":
            return Blocking(found, self.runner)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await found(*args, **kwargs)

        return lambda *args, **kwargs: self.runner.run(call(*args, **kwargs))


class ShardsClient:
    def __init__(self, queue: Any, log: str, name: str) -> None:
        self.queue, self.name, self.numbers = queue, name, itertools.count()
        self.log = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def tell(self, verb: str, payloads: Iterable[str]) -> None:
        if told := " ".join(payloads):
            os.write(self.log, f"{verb} {time.time_ns() // 1_000_000} {told}\n".encode())

    def step(self) -> None:
        fate = random.random()
        if fate < 0.3:
            self.publish()
        elif fate < 0.33:
            self.queue.admin.configure(shards=random.choice(COUNTS))
        else:
            self.consume()

    def publish(self) -> None:
        """Publish under keys of the last seconds."""
        now = int(time.time() * 30)
        texts = [
            f"k{now - random.randrange(60)}/{self.name}-{next(self.numbers)}" for _ in range(random.choice((1, 1, 8)))
        ]
        self.tell("sends", texts)
        if len(texts) == 1:
            stored = texts if self.queue.publish(texts[0], dedup_key=key_of(texts[0])).accepted else []
        else:
            ids = self.queue.publish_many(texts, dedup_key=key_of).ids
            stored = [text for text, each in zip(texts, ids, strict=True) if each is not None]
        self.tell("stored", stored)

    def consume(self) -> None:
        lease_id = random.choice((None, f"job-{int(time.time())}-{random.randrange(2)}"))
        try:
            lease = self.queue.claim(max_messages=random.choice((1, 5, 20)), wait=0.3, lease_id=lease_id)
        except LeaseAlreadySettled:
            return
        while lease is not None:
            self.tell("did", payloads_of(lease))
            time.sleep(1.5 * LEASE_S if random.random() < DOZES else random.random() / 50)
            lease = self.settle(lease)

    def settle(self, lease: Lease) -> Lease | None:
        """Settle in one of five ways; return the lease that was claimed in the same call, if any."""
        way, after, texts = random.random(), None, payloads_of(lease)
        self.tell("tries", texts)
        verb = "acked" if way < 0.8 else "gave"
        try:
            if way < 0.35:
                self.queue.ack(lease)
            elif way < 0.5:
                after = self.queue.claim_next(ack=lease, max_messages=random.choice((1, 20)))
            elif way < 0.8:
                outcomes = self.queue.ack(lease, list(lease.messages)).outcomes
                self.tell("stale", [text for text, each in zip(texts, outcomes, strict=True) if each == "lost"])
                texts = [text for text, each in zip(texts, outcomes, strict=True) if each == "settled"]
            elif way < 0.9:
                self.queue.release(lease)
            else:
                self.queue.nack(lease)
        except LeaseLost:
            verb = "stale"
        self.tell(verb, texts)
        return after


def key_of(text: str) -> str:
    return text.partition("/")[0]


def payloads_of(lease: Lease) -> list[str]:
    return [str(message.payload) for message in lease.messages]


def main(flavour: str, url: str, log: str, name: str) -> None:
    """Go on until killed."""
    claiming._FEW = FEW
    if flavour == "sync":
        queue: Any = LeasedQueue(url, "q", CONFIG)
    else:
        runner = asyncio.Runner()
        queue = Blocking(AsyncLeasedQueue(url, "q", CONFIG), runner)
    client = ShardsClient(queue, log, name)
    while True:
        client.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
