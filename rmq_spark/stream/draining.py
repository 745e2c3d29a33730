"""Run a query until its queue is empty, and end it with everything acked, on each version of Spark."""

from __future__ import annotations

from pyspark.sql.streaming.query import StreamingQuery

from rmq_spark.versions import HAS_LIMITS


def drain(query: StreamingQuery) -> None:
    """Process all ready messages, then stop the query: all its batches are acked, and no lease is left.

    query: started without a trigger, which is Spark's default. Messages that are published meanwhile are processed too,
    so this returns when the queue has been empty once. Messages that are published between that moment and the return
    may already be claimed; they stay leased until the next query of the consumer, or until the lease expires. Raises
    StreamingQueryException when the query fails; it is stopped then too, and its batch stays leased for the restart.
    """
    # Spark reports that nothing is left after it has asked the source with the last committed offset, and that call
    # acks. Spark 4.0 and 4.1 do not pass that offset: after a restart, the source acks when it is asked once more.
    # Under `availableNow`, these versions never ask it once more.
    try:
        query.processAllAvailable()
        if not HAS_LIMITS:
            query.processAllAvailable()
    finally:
        query.stop()
