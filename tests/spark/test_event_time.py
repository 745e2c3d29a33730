"""A message that comes back late: a watermark that has passed it drops it, and the source cannot know."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rmq_core import LeasedQueue
from tests.spark.conftest import QUEUE

EARLY, LATER = 0, 3600


@pytest.mark.nightly(
    "spark/test_stream_reader.py::test_a_crash_in_a_batch_redelivers_the_same_messages_with_a_counted_delivery"
)
@pytest.mark.parametrize(("bound", "seen"), [("1 minute", [LATER]), ("2 hours", [EARLY, LATER])])
def test_a_message_that_comes_back_is_counted_only_within_the_bound_of_the_watermark(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path, bound: str, seen: list[int]
) -> None:
    counted: list[int] = []

    def collect(windows: DataFrame, _: int) -> None:
        counted.extend(row.at for row in windows.select(F.unix_timestamp("window.start").alias("at")).collect())

    queue.publish({"at": EARLY})
    held = queue.claim(owner="another")
    queue.publish({"at": LATER})
    source = spark.readStream.format("rmq").options(url=redis_url, queue=QUEUE, consumer="c", pollTimeout="100 ms")
    at = F.timestamp_seconds(F.get_json_object(F.col("payload").cast("string"), "$.at").cast("long"))
    counts = source.load().select(at.alias("at")).withWatermark("at", bound).groupBy(F.window("at", "1 minute")).count()
    writer = counts.writeStream.outputMode("update").foreachBatch(collect)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        queue.nack(held, delay=0)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(counted) == seen
    assert sum(queue.stats()[:5]) == 0, "the source has acked both: it does not know what the query dropped"
    dropped = sum(
        state.numRowsDroppedByWatermark for progress in query.recentProgress for state in progress.stateOperators
    )
    assert dropped == 2 - len(seen)
