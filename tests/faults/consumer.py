"""A consumer that logs everything it does: `python -m tests.faults.consumer <sync|async> <url> <log>`.

A line of the log is `<verb> <fencing number> <payload> ...`: `did` before a settle is tried, `acked` once it was
reported, `gave` for released messages, `stale` for a settle that was refused. Now and then it pauses beyond its lease,
so that refusals are tested too. A line is one write: SIGKILL leaves it whole or not there.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Iterable

from rmq_core import Lease, LeasedConfig, LeasedQueue, LeaseLost, Message
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue

LEASE_S = 1.0
CONFIG = LeasedConfig(lease=LEASE_S, max_deliveries=None)
DOZES = 0.03


class Log:
    """Lines appended to a file."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def write(self, verb: str, lease: Lease, messages: Iterable[Message]) -> None:
        fence = (lease.token or "").split(".")[0]
        os.write(self.file, f"{verb} {fence} {' '.join(str(message.payload) for message in messages)}\n".encode())


def consume(url: str, log: Log) -> None:
    """Consume without heartbeats: whole acks, acks one by one, releases, and pauses beyond the lease."""
    with LeasedQueue(url, "q", CONFIG) as queue:
        while True:
            lease = queue.claim(max_messages=random.choice((1, 1, 5, 20)), wait=1)
            if lease is not None:
                messages = list(lease.messages)
                log.write("did", lease, messages)
                time.sleep(1.5 * LEASE_S if random.random() < DOZES else random.random() / 50)
                settle(queue, lease, messages, log)


def settle(queue: LeasedQueue, lease: Lease, messages: list[Message], log: Log) -> None:
    """Settle in one of three ways."""
    way = random.random()
    try:
        if way < 0.6:
            queue.ack(lease)
            log.write("acked", lease, messages)
        elif way < 0.9:
            outcomes = queue.ack(lease, messages).outcomes
            log.write(
                "acked", lease, [m for m, outcome in zip(messages, outcomes, strict=True) if outcome == "settled"]
            )
            if "lost" in outcomes:
                log.write("stale", lease, messages)
        else:
            queue.release(lease)
            log.write("gave", lease, messages)
    except LeaseLost:
        log.write("stale", lease, messages)


async def consume_async(url: str, log: Log) -> None:
    """Consume with `process` and its heartbeat; a pause blocks the whole loop, as a long computation would."""
    async with AsyncLeasedQueue(url, "q", CONFIG) as queue:
        while True:
            try:
                async with queue.process(max_messages=random.choice((1, 5)), wait=1) as batch:
                    if batch:
                        log.write("did", batch.lease, batch.lease.messages)
                        if random.random() < DOZES:
                            time.sleep(1.5 * LEASE_S)  # noqa: ASYNC251  the pause must stop the heartbeat task, too
                        await asyncio.sleep(random.random() / 50)
                if batch:
                    log.write("acked", batch.lease, batch.lease.messages)
            except LeaseLost:
                if batch:
                    log.write("stale", batch.lease, batch.lease.messages)


def main(flavour: str, url: str, path: str) -> None:
    """Consume until killed."""
    log = Log(path)
    if flavour == "sync":
        consume(url, log)
    else:
        asyncio.run(consume_async(url, log))


if __name__ == "__main__":
    main(*sys.argv[1:])
