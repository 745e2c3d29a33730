"""What Spark passes to a stream source from 4.2 on: the limit of a batch, and the trigger `availableNow`."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from rmq_core import LeasedQueue
from rmq_spark.stream.batch_leases import Offset
from tests.spark.conftest import QUEUE
from tests.spark.readers import publish, run


def test_available_now_ends_although_more_comes(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 5)
    with run(redis_url, maxMessagesPerBatch=3) as first:
        first.reader.prepareForTriggerAvailableNow()
        publish(queue, 5, first=5)
        assert [len(first.batch()) for _ in range(3)] == [3, 2, 0]
    assert queue.stats().ready == 5


def test_available_now_first_completes_what_a_crash_left(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 3)
    with run(redis_url) as first:
        first.batch()
        start = first.at
        publish(queue, 3, first=3)
        first.next()
    with run(redis_url, start) as second:
        second.reader.prepareForTriggerAvailableNow()
        assert sorted(second.batch()) == [3, 4, 5]
        assert second.next() == second.at
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("limit", "options", "expected"),
    [
        (ReadMaxRows(4), {}, 4),
        (ReadMaxRows(40), {"maxMessagesPerBatch": 7}, 7),
        (ReadAllAvailable(), {"maxMessagesPerBatch": 7}, 20),
        (ReadMaxBytes(1000), {}, 9),  # of 103 bytes each
        (ReadMaxBytes(1), {}, 1),
        (ReadMaxBytes(1000), {"maxMessagesPerBatch": 7}, 7),
        (ReadMaxRows(40), {"maxBytesPerBatch": "1000b"}, 9),
    ],
)
def test_the_limits_cap_a_batch(
    redis_url: str, queue: LeasedQueue, limit: Any, options: dict[str, Any], expected: int
) -> None:
    queue.publish_many(["x" * 100] * 20, headers={"a": "bc"})
    with run(redis_url, **options) as first:
        info = queue.lease_info(Offset.read(first.next(limit), QUEUE, "c").lease_id)
        assert info is not None
        assert info.count == expected


def test_the_default_limit_is_in_bytes_when_the_option_for_bytes_is_set(redis_url: str) -> None:
    with run(redis_url, maxMessagesPerBatch=7) as first, run(redis_url, maxBytesPerBatch="8m") as second:
        assert first.reader.getDefaultReadLimit() == ReadMaxRows(7)
        assert second.reader.getDefaultReadLimit() == ReadMaxBytes(8 << 20)


def test_the_lag_is_reported_as_the_latest_offset(redis_url: str, queue: LeasedQueue) -> None:
    with run(redis_url, maxMessagesPerBatch=2) as first:
        assert first.reader.reportLatestOffset() == {"ready": 0}
        publish(queue, 3)
        first.next()
        assert first.reader.reportLatestOffset() == {"ready": 1, "oldest_s": ANY}


def test_a_checkpoint_that_an_older_spark_wrote_is_continued(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 6)
    with run(redis_url, version="4.0", maxMessagesPerBatch=2) as first:
        assert first.batch() == [0, 1]
        end = first.next()
    with run(redis_url, first.at, maxMessagesPerBatch=2) as later:
        assert later.reader.partitions(end, end) == [], "Spark names the end of its log, which is not committed yet"
        assert later.read(end) == [2, 3]
        later.at = end
        assert later.batch() == [4, 5]
        later.next()
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)
