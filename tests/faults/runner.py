"""A run that a test signals or kills: `python -m tests.faults.runner <sync|async> <url> <concurrency> <folder>`.

Its handler prints `began <payload> <deliveries>`, and for each payload but `quick` waits until the folder has a file of
that name. It prints what RMQ logs, and the report of the run at its end.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from pathlib import Path

from rmq_core import LeasedConfig, LeasedQueue, Message
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue

CONFIG = LeasedConfig(lease=1, retry_budget=0.5)


def main(flavour: str, url: str, concurrency: str, folder: str) -> None:
    """Run until a signal."""

    def waits(message: Message) -> bool:
        return message.payload != "quick" and not Path(folder, str(message.payload)).exists()

    def begun(message: Message) -> None:
        os.write(1, f"began {message.payload} {message.deliveries}\n".encode())  # whole, beside other threads

    def handle(message: Message) -> None:
        begun(message)
        while waits(message):
            time.sleep(0.01)

    async def handle_async(message: Message) -> None:
        begun(message)
        while waits(message):
            await asyncio.sleep(0.01)

    async def run() -> None:
        async with AsyncLeasedQueue(url, "q", CONFIG) as queue:
            print(await queue.run(handle_async, concurrency=int(concurrency)))

    logging.basicConfig(stream=sys.stdout, format="%(message)s")
    if flavour == "async":
        asyncio.run(run())
        return
    with LeasedQueue(url, "q", CONFIG) as queue:
        print(queue.run(handle, concurrency=int(concurrency)))


if __name__ == "__main__":
    main(*sys.argv[1:])
