"""Run a query until its queue is empty, and end it with everything acked, on each version of Spark."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from rmq_spark.stream.options import HAS_LIMITS


def drain(query: StreamingQuery) -> None:
    """Process all ready messages, then stop the query: all its batches are acked, and no lease is left.

    query: started without a trigger, which is Spark's default. Messages that are published meanwhile are processed too,
    so this returns when the queue has been empty once. Raises StreamingQueryException when the query fails; it is
    stopped then too, and its batch stays leased for the restart.
    """
    # Spark reports that nothing is left after it has asked the source with the last committed offset, and that call
    # acks. Before Spark 4.2 the source is not told that offset: after a restart it acks when it is asked again, and
    # `availableNow` never asks it again.
    try:
        query.processAllAvailable()
        if not HAS_LIMITS:
            query.processAllAvailable()
    finally:
        query.stop()
