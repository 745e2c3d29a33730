"""A Spark job whose executors have the effects, and pause in the middle of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import rmq_spark
from rmq_core import LeaseLost
from rmq_core.orchestrate import Handover
from tests.faults.airflow.ledger import Ledger, fence_of


def work(fence: int, rows: Iterator[Any]) -> None:
    """Run in an executor."""
    for row in rows:
        Ledger(row.queue).work(fence, row.message_id, bytes(row.payload).decode())


def write(verb: str) -> None:
    """Return the outcome of the messages that the executors worked on."""
    worked = [message_id for message_id, fences in ledger.fences("did").items() if fence in fences]
    ledger.write(verb, fence, worked)


ledger, fence = Ledger(Handover.from_environment().queue), 0
spark = rmq_spark.session("faults", **{"spark.ui.enabled": False})
try:
    with rmq_spark.adopted_batch(spark) as batch:
        if batch:
            fence = fence_of(batch.lease.token)
            batch.df.coalesce(1).foreachPartition(partial(work, fence))
except LeaseLost:
    write("stale")
    raise
write("acked")
spark.stop()
