"""A consumer that logs everything it does: `python -m tests.faults.consumer <sync|async> <url> <log>`.

A line of the log is `<verb> <fencing number> <ms> <deadline in ms> <payload> ...`: `did` when messages were claimed,
`tries` just before they are settled, `acked` once that was reported, `gave` for messages that were released or nacked,
`stale` for a settle that was refused, `left` where an error ended a block, whether its nack was refused or not. Now and
then it pauses beyond its lease, so that refusals are tested too. A message whose payload ends in `poison` fails. A line
is one write: SIGKILL leaves it whole or not there.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time

from rmq_core import Lease, LeasedConfig, LeasedQueue, LeaseLost
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue

LEASE_S = 1.0
CONFIG = LeasedConfig(lease=LEASE_S, max_deliveries=None)
DOZES = 0.03


class Log:
    """Lines appended to a file."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def write(self, verb: str, lease: Lease) -> None:
        fence = (lease.token or "").split(".")[0]
        payloads = " ".join(str(message.payload) for message in lease.messages)
        line = f"{verb} {fence} {time.time_ns() // 1_000_000} {lease.deadline_ms} {payloads}\n"
        os.write(self.file, line.encode())


class Poisoned(Exception):
    """A message cannot be processed."""


def poisoned(lease: Lease) -> bool:
    return any(str(message.payload).endswith("poison") for message in lease.messages)


def consume(url: str, log: Log) -> None:
    """Consume without heartbeats: settle in all ways, and pause beyond the lease."""
    with LeasedQueue(url, "q", CONFIG) as queue:
        lease = None
        while True:
            lease = lease or queue.claim(max_messages=random.choice((1, 1, 5, 20)), wait=1)
            if lease is not None:
                log.write("did", lease)
                time.sleep(1.5 * LEASE_S if random.random() < DOZES else random.random() / 50)
                lease = settle(queue, lease, log)


def settle(queue: LeasedQueue, lease: Lease, log: Log) -> Lease | None:
    """Settle in one of five ways; return the lease that was claimed in the same call, if any."""
    way, after = random.random(), None
    log.write("tries", lease)
    try:
        if poisoned(lease):
            queue.nack(lease)
        elif way < 0.4:
            queue.ack(lease)
        elif way < 0.6:
            after = queue.claim_next(ack=lease, max_messages=random.choice((1, 20)))
        elif way < 0.9:
            outcomes = {*queue.ack(lease, list(lease.messages)).outcomes}
            assert len(outcomes) == 1, outcomes
            if outcomes == {"lost"}:
                raise LeaseLost(lease.id)
        else:
            queue.release(lease)
    except LeaseLost:
        log.write("stale", lease)
    else:
        log.write("gave" if poisoned(lease) or way >= 0.9 else "acked", lease)
    return after


async def consume_async(url: str, log: Log) -> None:
    """Consume with `process` and its heartbeat; a pause blocks the whole loop, as a long computation would."""
    async with AsyncLeasedQueue(url, "q", CONFIG) as queue:
        while True:
            verb = "acked"
            try:
                async with queue.process(max_messages=random.choice((1, 5)), wait=1) as batch:
                    if batch:
                        log.write("did", batch.lease)
                        if random.random() < DOZES:
                            time.sleep(1.5 * LEASE_S)  # noqa: ASYNC251  the pause must stop the heartbeat task, too
                        await asyncio.sleep(random.random() / 50)
                        log.write("tries", batch.lease)
                        if poisoned(batch.lease):
                            raise Poisoned
            except Poisoned:
                verb = "left"  # it was nacked, or lost before
            except LeaseLost:
                verb = "stale"
            if batch:
                log.write(verb, batch.lease)


def main(flavour: str, url: str, path: str) -> None:
    """Consume until killed."""
    log = Log(path)
    if flavour == "sync":
        consume(url, log)
    else:
        asyncio.run(consume_async(url, log))


if __name__ == "__main__":
    main(*sys.argv[1:])
