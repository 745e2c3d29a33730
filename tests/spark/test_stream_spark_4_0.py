"""The order in which Spark 4.0 and 4.1 call a stream source, and what follows from it about committed batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmq_core import ConfigurationError, LeasedQueue
from tests.spark.readers import Plain, Run, held, publish, run, spark_version


@pytest.fixture(autouse=True)
def _spark_4_0() -> Iterator[None]:
    with spark_version("4.0"):
        yield


def available_now(stream: Run, logged: Plain | None = None) -> list[int]:
    """Call the hooks as `availableNow` does, and return the numbers of its only batch.

    logged: the end of the batch in Spark's log that is not committed, which is then the only one.
    """
    end = logged or stream.reader.latestOffset()
    if end == stream.at:
        return []
    numbers = stream.read(end)
    stream.at = end
    return numbers


def test_available_now_processes_one_batch_a_run_and_the_next_batch_acks_it(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 4)
    with run(redis_url, maxMessagesPerBatch=2) as first:
        assert available_now(first) == [0, 1]
        assert held(queue) == 2, "no call has shown that the batch is committed"
    with run(redis_url, first.at, maxMessagesPerBatch=2) as second:
        assert available_now(second) == [2, 3]
        assert held(queue) == 2
    with run(redis_url, second.at) as third:
        assert available_now(third) == []
        assert held(queue) == 2, "without another batch it stays leased"
    with run(redis_url, third.at) as drained:
        drained.next()
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_available_now_after_a_crash_only_repeats_the_batch(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 6)
    with run(redis_url, maxMessagesPerBatch=2) as first:
        available_now(first)
        before = first.at
        end = first.reader.latestOffset()
    with run(redis_url, end, maxMessagesPerBatch=2) as second:
        second.at = before
        assert available_now(second, end) == [2, 3]
        assert held(queue) == 2
    with run(redis_url, end) as third:
        assert available_now(third) == [4, 5]
    assert queue.stats()[:3] == (0, 0, 2)


def test_a_crash_between_the_log_of_a_batch_and_the_ack_before_it_redelivers_nothing(
    redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 4)
    with run(redis_url, maxMessagesPerBatch=2) as first:
        available_now(first)
    with run(redis_url, first.at, maxMessagesPerBatch=2) as crashed:
        end = crashed.reader.latestOffset()  # Spark writes it into its log
        assert held(queue) == 4
    with run(redis_url, end, maxMessagesPerBatch=2) as second:
        second.at = first.at
        assert available_now(second, end) == [2, 3]
        assert second.next() == end
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_the_end_of_the_log_is_acked_when_the_query_asks_for_the_second_time(
    redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 2)
    with run(redis_url) as first:
        first.batch()
    with run(redis_url, first.at) as second:
        assert second.reader.latestOffset() == first.at
        assert held(queue) == 2, "the batch may still be repeated"
        assert second.reader.latestOffset() == first.at
        assert held(queue) == 0


def test_batches_whose_rows_no_one_reads_are_acked_too(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 4)
    with run(redis_url, maxMessagesPerBatch=2) as stream:
        first = stream.reader.latestOffset()
        second = stream.reader.latestOffset()  # Spark plans no partitions for a handler that ignores its rows
        assert (first["seq"], second["seq"], held(queue)) == (1, 2, 4)
        stream.reader.commit(first)
        assert held(queue) == 2
        assert stream.reader.latestOffset() == second
        assert held(queue) == 2
        stream.reader.latestOffset()
    assert queue.stats()[:3] == (0, 0, 0)


def test_a_batch_that_is_asked_for_twice_before_it_is_planned_is_not_acked(redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 4)
    with run(redis_url, maxMessagesPerBatch=2) as stream:
        first = stream.reader.latestOffset()
        stream.reader.latestOffset()  # Spark's wrapper asks once for itself and once to report
        assert stream.read(first) == [0, 1]
        assert held(queue) == 4
        assert stream.reader.latestOffset()["seq"] == 2
        assert held(queue) == 2


def test_a_query_that_claims_before_it_names_its_checkpoint_is_refused_and_keeps_nothing(
    redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 4)
    with run(redis_url, maxMessagesPerBatch=2) as first:
        first.batch()
        first.next()
    with run(redis_url, maxMessagesPerBatch=2) as wrapped:
        wrapped.reader.latestOffset()
        with pytest.raises(ConfigurationError, match=r"triggerAvailableNowWrapper\.enabled: leave it false"):
            wrapped.reader.partitions(first.at, first.at)
    assert queue.stats()[:3] == (2, 0, 0)
