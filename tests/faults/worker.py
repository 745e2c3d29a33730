"""A worker of any discipline that logs what it does.

Run as `python -m tests.faults.worker <discipline> <sync|async> <url> <log>`.

A line of the log is `<did|acked|stale> <payload>`: `did` before the ack is tried, `acked` once it was reported, `stale`
when it was refused. Now and then it pauses beyond its deadline, so that refusals are tested too.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from typing import Any

from rmq_core import LeaseLost, open_queue
from rmq_core.asyncio import open_queue as open_async_queue
from rmq_core.reliable import ReliableConfig
from rmq_core.rotation import RotationConfig

TIMEOUT_S = 1
CONFIGS: dict[str, Any] = {
    "reliable": ReliableConfig(timeout=TIMEOUT_S, max_deliveries=None),
    "rotation": RotationConfig(timeout=TIMEOUT_S),
}
DOZES = 0.01


class Log:
    """Lines appended to a file; one write each, so that SIGKILL leaves a line whole or not there."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def write(self, verb: str, lease: Any) -> None:
        lines = "".join(f"{verb} {message.payload}\n" for message in lease.messages)
        os.write(self.file, lines.encode())


def nap_s() -> float:
    return 1.5 * TIMEOUT_S if random.random() < DOZES else random.random() / 100


def work(discipline: str, url: str, log: Log) -> None:
    queue = open_queue(url, "q", discipline, CONFIGS[discipline])
    while True:
        lease = queue.claim(max_messages=random.choice((1, 1, 5)), wait=1)
        if lease is None:
            continue
        log.write("did", lease)
        time.sleep(nap_s())
        try:
            queue.ack(lease)
            log.write("acked", lease)
        except LeaseLost:
            log.write("stale", lease)


async def work_async(discipline: str, url: str, log: Log) -> None:
    queue: Any = open_async_queue(url, "q", discipline, CONFIGS[discipline])
    while True:
        lease = await queue.claim(max_messages=random.choice((1, 1, 5)), wait=1)
        if lease is None:
            continue
        log.write("did", lease)
        await asyncio.sleep(nap_s())
        try:
            await queue.ack(lease)
            log.write("acked", lease)
        except LeaseLost:
            log.write("stale", lease)


def main(discipline: str, flavour: str, url: str, path: str) -> None:
    """Work until the process is killed."""
    log = Log(path)
    if flavour == "sync":
        work(discipline, url, log)
    else:
        asyncio.run(work_async(discipline, url, log))


if __name__ == "__main__":
    main(*sys.argv[1:])
