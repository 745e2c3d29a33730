"""A producer that logs what it publishes: `python -m tests.faults.producer <sync|async> <url> <log> <name>`.

A line of the log is `sends <payload> ...` before a call, `stored <payload> ...` once it returned. Its groups, and its
publication, begin with its name. It publishes until it is killed.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
import time
from collections.abc import Iterator

from rmq_core import LeasedQueue
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue
from rmq_core.messages import NewMessage

PACE_S = 0.02
GROUPS = 3


def calls(path: str, name: str) -> Iterator[list[NewMessage]]:
    """Return what each call publishes; log it before, and after."""
    file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    numbers = itertools.count()
    while True:
        group = f"{name}-{random.randrange(GROUPS)}"
        payloads = [f"{group}/{next(numbers)}" for _ in range(random.choice((1, 1, 5)))]
        os.write(file, f"sends {' '.join(payloads)}\n".encode())
        yield [NewMessage(payload, group=group) for payload in payloads]
        os.write(file, f"stored {' '.join(payloads)}\n".encode())


def produce(url: str, path: str, name: str) -> None:
    with LeasedQueue(url, "q") as queue:
        for messages in calls(path, name):
            if len(messages) == 1:
                queue.publish(messages[0].payload, group=messages[0].group)
            else:
                queue.publish_many(messages)
            time.sleep(PACE_S)


async def produce_async(url: str, path: str, name: str) -> None:
    async with AsyncLeasedQueue(url, "q") as queue:
        for messages in calls(path, name):
            if len(messages) == 1:
                await queue.publish(messages[0].payload, group=messages[0].group)
            else:
                await queue.publish_many(messages)
            await asyncio.sleep(PACE_S)


def main(flavour: str, url: str, path: str, name: str) -> None:
    """Publish until killed."""
    if flavour == "sync":
        produce(url, path, name)
    else:
        asyncio.run(produce_async(url, path, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
