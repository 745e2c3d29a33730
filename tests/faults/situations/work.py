"""The work of every situation, in whichever orchestrator: write the effect of each message, ack it, log both.

Airflow's tasks and Dagster's runs import this file.
"""

from __future__ import annotations

import os
import time

import psutil

from rmq_core import Batch, LeasedConfig, LeaseLost
from tests.faults.airflow.ledger import Ledger, fence_of

LIVE = ("continuous", "backfill", "poison", "terminated", "down")
"""Queues, each with a pipeline of the same name whose runs the doorbell starts."""
FAN_OUT, DAYS = "fan_out", "days"
SHARES, SHARE = 20, 10
BATCH = 20
WORK_S = 0.2
LEASE_S = 20
CONFIG = LeasedConfig(lease=LEASE_S, max_deliveries=5)
POISON = "poison"
BY, NOTHING = "by", "nothing"
"""Verbs of the ledger: a process that works and when it was started, and work that got no messages."""


def work(batch: Batch) -> int:
    """Work on each message and ack it; return how many there were. Fail as a whole when one of them is poison."""
    ledger = Ledger(batch.queue.name)
    if not batch:
        ledger.write(NOTHING, os.getpid(), ["-"])
        return 0
    fence, messages = fence_of(batch.lease.token), list(batch)
    ledger.write(BY, os.getpid(), [repr(psutil.Process().create_time())])
    if any(str(message.payload).startswith(POISON) for message in messages):
        raise ValueError(POISON)
    for message in messages:
        ledger.have_effect(fence, message.id, str(message.payload))
        ledger.stand_still()
        time.sleep(WORK_S)
        try:
            batch.ack(message)
        except LeaseLost:
            ledger.write("stale", fence, [message.id])
            raise
        ledger.write("acked", fence, [message.id])
    return len(messages)


def rest(batch: Batch) -> int:
    """Do the same; to find nothing is not worth a note: who has worked asks until nothing is left."""
    return work(batch) if len(batch) else 0
