"""A worker whose work kills it.

It works through one lease of that id, or through anonymous leases until nothing is ready, and acks each. At a payload
"poison" it dies as an out-of-memory kill would let it.
"""

from __future__ import annotations

import os
import signal

from rmq_core import LeasedConfig, LeasedQueue, Message

CONFIG = LeasedConfig(lease=60, max_deliveries=5)


def main(url: str, max_messages: str, lease_id: str | None = None) -> None:
    """Work, and die of a poison message."""
    with LeasedQueue(url, "q", CONFIG) as queue:
        while lease := queue.claim(max_messages=int(max_messages), lease_id=lease_id):
            with queue.hold(lease):
                for message in queue.messages(lease):
                    work(message)
                queue.ack(lease)
            if lease_id:
                return


def work(message: Message) -> None:
    """Die of poison; anything else takes no work at all."""
    if message.payload == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
