"""`drain` processes what is ready, acks all of it and stops the query."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from rmq_core import LeasedQueue
from rmq_spark import drain
from tests.spark.readers import publish
from tests.spark.streams import Batches, Stream


def test_a_drained_query_has_acked_everything_and_left_no_lease(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    publish(queue, 45)
    batches = Batches()

    def handle(messages: DataFrame, number: int) -> None:
        batches(messages, number)
        if number == 1:
            publish(queue, 5, first=45)

    stream = Stream(spark, redis_url, tmp_path, maxMessagesPerBatch=20)
    for _ in range(2):  # the second time there is nothing to do
        query = stream.start(handle)
        drain(query)
        assert not query.isActive
        assert batches.numbers == list(range(50)), "what was published meanwhile is processed too"
        assert sum(queue.stats()[:5]) == 0
        assert queue.leases() == []


def test_a_query_that_fails_while_it_is_drained_is_stopped_and_keeps_its_batch(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    def failing(messages: DataFrame, number: int) -> None:
        raise ZeroDivisionError

    publish(queue, 5)
    stream = Stream(spark, redis_url, tmp_path)
    query = stream.start(failing)
    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        drain(query)
    assert not query.isActive
    assert queue.stats().leased == 5
    batches = Batches()
    drain(stream.start(batches))
    assert batches.numbers == list(range(5))
    assert sum(queue.stats()[:5]) == 0
