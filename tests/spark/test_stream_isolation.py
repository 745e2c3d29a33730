"""A stream with a poison message: all others are committed within few micro-batches, whatever the restarts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from rmq_core import LeasedQueue
from tests.spark.readers import publish, run
from tests.spark.streams import Stream


class Consumer:
    """Restarts a query as long as it fails; `batches` counts those with messages, all tries at one as one."""

    def __init__(self, url: str, bad: int, retries: int, **options: Any) -> None:
        # A batch of several messages is tried `max_deliveries - 1` times in all.
        self.url, self.bad, self.options = url, bad, {"maxDeliveries": retries + 2, **options}
        self.at: dict[str, Any] | None = None
        self.planned: dict[str, Any] | None = None
        self.done: set[int] = set()
        self.batches: set[str] = set()
        self.smallest = 0

    def work_until(self, count: int) -> int:
        """Return how many batches it takes until so many messages are committed."""
        while len(self.done) < count:
            self.work()
            assert len(self.batches) < 1000
        return len(self.batches)

    def work(self) -> None:
        """Run the query once; it ends with the first batch that fails, or without work."""
        with run(self.url, start=self.at, **self.options) as query:
            while True:
                end = self.planned or query.next()
                if end == query.at:
                    return
                numbers = query.read(end)
                if numbers:
                    self.batches.add(json.dumps(end))
                    self.planned = end
                if self.bad in numbers:
                    self.at = query.at
                    return
                self.done |= set(numbers)
                self.planned, self.at = None, end
                query.at = end


@pytest.mark.parametrize("count", [20, 200, 1000])
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_stream_finds_its_poison_in_few_batches_whatever_the_restarts(
    redis_url: str, queue: LeasedQueue, count: int, retries: int
) -> None:
    publish(queue, count)
    consumer = Consumer(redis_url, bad=count // 3, retries=retries, maxMessagesPerBatch=count)
    assert consumer.work_until(count - 1) <= 2 * math.log2(count) + 4
    assert consumer.done == set(range(count)) - {count // 3}
    while not queue.stats().dead:
        consumer.work()
    assert [letter.payload for letter in queue.admin.dead_letters()] == [{"n": count // 3}]
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_checkpoints_that_are_deleted_do_not_make_the_batches_of_new_streams_small(
    redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 2000)
    for _ in range(2):
        with run(redis_url, maxMessagesPerBatch=500) as query:
            assert len(query.read(query.next())) == 500
    with run(redis_url, maxMessagesPerBatch=500) as query:
        sizes = []
        while (numbers := query.batch()) != []:
            sizes.append(len(numbers))
    assert sorted(sizes) == [250, 250, 500, 500, 500]


@pytest.mark.nightly(
    "spark/test_stream_isolation.py::test_a_stream_finds_its_poison_in_few_batches_whatever_the_restarts"
)
def test_a_query_of_spark_commits_all_but_the_poison(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    publish(queue, 20)
    stream = Stream(spark, redis_url, tmp_path, maxMessagesPerBatch=20, maxDeliveries=2)
    done: set[int] = set()
    batches: set[int] = set()

    def work(frame: DataFrame, number: int) -> None:
        numbers = {json.loads(bytes(row.payload))["n"] for row in frame.collect()}
        batches.update({number} if numbers else ())
        if 13 in numbers:
            raise RuntimeError("poison")
        done.update(numbers)

    while len(done) < 19:
        try:
            stream.drain(work)
        except StreamingQueryException:
            assert len(batches) <= 2 * math.log2(20) + 4
    assert len(batches) <= 2 * math.log2(20) + 4
    assert done == set(range(20)) - {13}
    assert queue.stats().dead + queue.stats().ready + queue.stats().leased == 1
