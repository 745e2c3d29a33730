"""`append_once` with Spark: claimed batches and micro-batches are in the table once, also when they are repeated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, get_json_object

import rmq_spark
from rmq_core import ConfigurationError, LeasedQueue
from rmq_spark.schema import arrow_schema
from rmq_spark.tables import BatchName, append_once, appended, appender, batch_names
from tests.spark.conftest import QUEUE
from tests.spark.readers import publish
from tests.spark.streams import Stream
from tests.spark.table_kits import KITS, DeltaKit, Kit

COUNT = 20


class Died(BaseException):
    """The end of a driver, as far as its batch is concerned."""


def numbers(messages: DataFrame) -> DataFrame:
    return messages.select(get_json_object(col("payload").cast("string"), "$.n").cast("long").alias("n"))


def not_computed(messages: DataFrame) -> DataFrame:
    raise AssertionError("the rows are computed again")


@pytest.fixture(params=KITS)
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Kit:
    return KITS[request.param](tmp_path)


def run(spark: SparkSession, url: str, block: Callable[[rmq_spark.ClaimedBatch], object]) -> int:
    """Return the number of messages of a batch under the name `run`, which fails as its block does."""
    with rmq_spark.claimed_batch(spark, url, QUEUE, lease_id="run") as batch:
        block(batch)
    return len(batch)


def test_a_batch_that_died_after_its_commit_is_acked_by_the_retry_and_not_computed(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, kit: Kit
) -> None:
    def dying(batch: rmq_spark.ClaimedBatch) -> None:
        assert not appended(batch, kit.table)
        assert append_once(batch, kit.table, numbers)
        raise Died

    def retry(batch: rmq_spark.ClaimedBatch) -> None:
        assert appended(batch, kit.table)
        assert not append_once(batch, kit.table, not_computed)

    publish(queue, COUNT)
    with pytest.raises(Died):
        run(spark, redis_url, dying)
    assert run(spark, redis_url, retry) == COUNT
    assert kit.numbers() == list(range(COUNT))
    assert sum(queue.stats()[:5]) == 0


def test_a_block_that_fails_after_its_commit_keeps_the_lease_although_its_policy_nacks(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, kit: Kit
) -> None:
    def failing(batch: rmq_spark.ClaimedBatch) -> None:
        append_once(batch, kit.table, numbers(batch.df))
        raise ZeroDivisionError

    publish(queue, COUNT)
    for _ in range(2):  # the second time, the log has the batch
        with pytest.raises(ZeroDivisionError):
            run(spark, redis_url, failing)
        assert queue.lease_info("run") is not None
    run(spark, redis_url, lambda batch: append_once(batch, kit.table, not_computed))
    assert kit.numbers() == list(range(COUNT))


def test_a_block_that_fails_before_its_commit_nacks(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, kit: Kit
) -> None:
    def failing(batch: rmq_spark.ClaimedBatch) -> None:
        append_once(batch, kit.table, batch.df.select("no such column"))

    publish(queue, COUNT)
    with pytest.raises(Exception, match="no such column"):
        run(spark, redis_url, failing)
    assert queue.lease_info("run") is None
    assert kit.numbers() == []


@pytest.mark.parametrize("kind", KITS)
def test_whole_messages_are_appended_as_they_are_in_a_session_of_any_time_zone(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path, kind: str
) -> None:
    kit = KITS[kind](tmp_path, arrow_schema(rmq_spark.MESSAGE_SCHEMA))
    queue.publish("a", headers={"tenant": "b"})
    (message,) = queue.admin.peek(1)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        run(spark, redis_url, lambda batch: append_once(batch, kit.table))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    (row,) = kit.rows().to_pylist()
    assert (row["message_id"], row["payload"], row["headers"]) == (message.id, message.raw, [("tenant", "b")])
    assert row["enqueued_at"] == message.enqueued_at


def test_a_micro_batch_that_is_repeated_is_appended_once(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, kit: Kit, tmp_path: Path
) -> None:
    publish(queue, COUNT)
    stream = Stream(spark, redis_url, tmp_path, maxMessagesPerBatch=COUNT // 2)
    append = appender(kit.table, numbers)

    def failing(messages: DataFrame, number: int) -> None:
        append(messages, number)
        if number == 1:
            raise ZeroDivisionError

    with pytest.raises(Exception, match="ZeroDivisionError"):
        stream.drain(failing)
    assert kit.numbers() == list(range(COUNT)), "the second batch is in the table, and Spark has not committed it"
    stream.drain(appender(kit.table, numbers))
    assert kit.numbers() == list(range(COUNT))
    assert sum(queue.stats()[:5]) == 0


def test_a_union_of_streams_has_a_name_for_each_with_messages(
    spark: SparkSession, redis_url: str, tmp_path: Path
) -> None:
    kit = DeltaKit(tmp_path)
    seen: list[BatchName] = []
    with LeasedQueue(redis_url, "a") as first, LeasedQueue(redis_url, "b") as second:
        publish(first, COUNT)
        publish(second, COUNT, first=COUNT)

        def write(messages: DataFrame, _: int) -> None:
            seen.extend(batch_names(messages))
            append_once(messages, kit.table, numbers)

        source = spark.readStream.format("rmq").options(url=redis_url, consumer="c", newQueue=True)
        parts = [source.option("queue", name).load() for name in ("a", "b", "empty")]
        union = parts[0].union(parts[1]).union(parts[2]).writeStream.foreachBatch(write)
        query = union.option("checkpointLocation", str(tmp_path / "log")).trigger(availableNow=True).start()
        assert query.awaitTermination(180)
    assert kit.numbers() == list(range(2 * COUNT))
    assert sorted(version for _, version in seen) == [1, 1]
    assert [kit.table.transaction_version(name) for name, _ in seen] == [1, 1]


def test_a_dataframe_that_does_not_name_its_batch_is_refused(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    publish(queue, COUNT)
    with pytest.raises(ConfigurationError, match=r"has no column lease, only n: .* transformation as `rows`"):
        run(spark, redis_url, lambda batch: append_once(numbers(batch.df), tmp_path))
    with pytest.raises(ConfigurationError, match="lease 'run' is not of a stream: pass the batch of claimed_batch"):
        run(spark, redis_url, lambda batch: append_once(batch.df, tmp_path))
