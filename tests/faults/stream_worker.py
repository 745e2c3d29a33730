"""A worker on a stream that writes effects into a database: `python -m tests.faults.stream_worker run|recover ...`.

`run` consumes new messages, `recover` those that dead workers left. Now and then it kills itself between commit and
ack, which is where a crash repeats a message; else it works until it is killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from typing import Any

from rmq_core import QueueConsumer
from rmq_core.streams import DbApi, EffectsOnce, QueueConfig, QueueMessage
from tests.core.streams.databases import ledger

STREAM, GROUP = "orders", "billing"
STALE_MS = 400
CRASHES = 0.01


class CrashingConnection:
    """A connection whose process may die right after its commit."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.cursor, self.rollback = connection.cursor, connection.rollback

    def commit(self) -> None:
        self.connection.commit()
        if random.random() < CRASHES:
            os.kill(os.getpid(), signal.SIGKILL)


def main(role: str, url: str, kind: str, place: str) -> None:
    effects = ledger(kind, place)
    once = EffectsOnce(effects.paramstyle)
    transactions = DbApi(CrashingConnection(effects.connect()))

    def handle(message: QueueMessage, tx: Any) -> None:
        effects.write(tx, message.payload["n"])

    config = QueueConfig(STREAM, GROUP, f"{role}-{os.getpid()}", claim_idle_ms=STALE_MS, block_ms=500)
    with QueueConsumer(url, config) as consumer:
        if role == "run":
            consumer.run(handler=once(handle), db_factory=transactions)
        while True:
            consumer.run_claim_stale(handler=once(handle), db_factory=transactions)
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
