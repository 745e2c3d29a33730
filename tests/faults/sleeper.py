"""A consumer that a test can suspend in the middle of its work: `python -m tests.faults.sleeper <sync|async> <url>`.

It claims one message under the lease id "job" and keeps it with heartbeats. It prints `claimed`, waits for a line,
polls until its heartbeat knows that the lease is lost, prints `lost`, leaves `process` and prints the error it got.
"""

from __future__ import annotations

import asyncio
import sys
import time

from rmq_core import Lease, LeasedConfig, LeasedQueue, RedisMessageQueueError
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue

CONFIG = LeasedConfig(lease=1)


def check(lease: Lease) -> bool:
    """Return whether the lease is known to be lost, and print `lost` if so."""
    if lease.lost:
        print("lost")
    return lease.lost


def sleep(url: str) -> None:
    with LeasedQueue(url, "q", CONFIG) as queue, queue.process(lease_id="job", owner="sleeper") as batch:
        assert batch
        print("claimed")
        sys.stdin.readline()
        while not check(batch.lease):
            time.sleep(0.005)


async def sleep_async(url: str) -> None:
    async with (
        AsyncLeasedQueue(url, "q", CONFIG) as queue,
        queue.process(lease_id="job", owner="sleeper") as batch,
    ):
        assert batch
        print("claimed")
        await asyncio.to_thread(sys.stdin.readline)
        while not check(batch.lease):
            await asyncio.sleep(0.005)


def main(flavour: str, url: str) -> None:
    """Wait for the line, and print what happened."""
    try:
        if flavour == "sync":
            sleep(url)
        else:
            asyncio.run(sleep_async(url))
    except RedisMessageQueueError as error:
        print(type(error).__name__)
    else:
        print("acked")


if __name__ == "__main__":
    main(*sys.argv[1:])
