"""`drain` processes what is ready, acks all of it and stops the query."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from rmq_core import LeasedQueue
from rmq_spark import drain
from tests.spark.conftest import QUEUE, wait_for
from tests.spark.readers import publish
from tests.spark.streams import PATIENCE_S, Batches, Stream

SOURCE = "pyspark.sql.streaming.python_streaming_source_runner"


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
        assert queue.admin.leases() == []


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


def test_a_stopped_query_claims_nothing_more_even_if_its_process_ends_late(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    with Stream(spark, redis_url, tmp_path, pollTimeout="60 seconds").running(Batches()) as query:
        wait_for(lambda: queue.client.exists(f"rmq:{{{QUEUE}}}:consumer:c"), PATIENCE_S)
        time.sleep(0.5)  # now it waits for messages
        (source,) = _sources()
        source.suspend()  # Spark's SIGTERM takes effect when it continues: a process on a busy machine is late, too
        try:
            query.stop()
            publish(queue, 5)
            assert queue.stats()[:3] == (5, 0, 0)
        finally:
            source.resume()
    wait_for(lambda: source not in _sources(), PATIENCE_S)
    assert queue.stats()[:3] == (5, 0, 0)


def _sources() -> list[psutil.Process]:
    """Return the processes in which the sources of running queries wait for messages."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if SOURCE in each.cmdline():
                found.append(each)
    return found
