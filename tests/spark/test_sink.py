"""Tests of the sink: which rows of a DataFrame are published, when, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import StringType, StructField, StructType

from rmq_core import Lease, LeasedConfig, LeasedQueue, NewMessage
from rmq_spark import claimed_batch, named_publisher
from rmq_spark.write.settling import NAMES, FailedDelivery, FailedRows, RmqSettler, settler_of
from rmq_spark.write.sink import RmqWriter, Written, sink_of
from tests.spark.conftest import QUEUE

FAILING = 'raise_error("this row fails")'


def save(frame: DataFrame, url: str, **options: Any) -> None:
    frame.write.format("rmq").mode("append").option("url", url).option("queue", QUEUE).options(**options).save()


def taken(queue: LeasedQueue) -> list[Any]:
    """Claim and ack everything; return the payloads."""
    lease = queue.claim(max_messages=100_000)
    if lease is None:
        return []
    found = [message.payload for message in queue.messages(lease)]
    queue.ack(lease)
    return found


def numbers(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(count, numPartitions=partitions).select(col("id").cast("string").alias("payload"))


@pytest.mark.parametrize("delivery", ["staged", "direct"])
def test_every_row_is_published_once(spark: SparkSession, redis_url: str, queue: LeasedQueue, delivery: str) -> None:
    save(numbers(spark, 5_000), redis_url, delivery=delivery)
    assert sorted(taken(queue), key=int) == [str(number) for number in range(5_000)]
    assert not list(queue.client.scan_iter("rmq:{work}:stage*"))


def test_staged_rows_arrive_in_the_order_of_the_partitions(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    save(numbers(spark, 30, partitions=3), redis_url)
    assert taken(queue) == [str(number) for number in range(30)]


def test_columns_become_the_fields_of_a_message(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    schema = "message_id string, value binary, headers map<string,string>, delay_ms int, lease string"
    rows = [("a", b"1", {"h": "1"}, 0, "x"), (None, b"2", None, None, None), ("c", b"3", {}, 3_600_000, None)]
    save(spark.createDataFrame(rows, schema).coalesce(1), redis_url)
    lease = queue.claim(max_messages=10)
    assert lease is not None
    first, second = lease.messages
    assert (first.id, first.payload, first.headers) == ("a", b"1", {"h": "1"})
    assert (second.payload, second.headers) == (b"2", {})
    assert queue.stats().delayed == 1


@pytest.mark.parametrize("delivery", ["staged", "direct"])
def test_messages_name_the_application_that_publishes_them(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, delivery: str
) -> None:
    copied = spark.sql("select 'x' as payload, map('spark-application-id', 'another', 'n', '1') as headers")
    save(copied.coalesce(1), redis_url, publisherHeader="true", delivery=delivery)
    publishers = [queue.admin.why(message.id).steps[0].who for message in queue.admin.browse("ready").messages]
    assert publishers == [f"spark {spark.sparkContext.applicationId}"]


def test_what_a_driver_and_its_tasks_publish_themselves_names_the_application(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    application = spark.sparkContext.applicationId

    def publish(batches: Iterator[Any], given: str | None = None) -> Iterator[Any]:
        with named_publisher(LeasedQueue(redis_url, QUEUE), given) as opened:
            opened.publish("from a task")
        yield from batches

    named_publisher(queue).publish("from the driver")
    spark.range(1, numPartitions=1).mapInArrow(publish, "id long").collect()
    spark.range(1, numPartitions=1).rdd.mapPartitions(lambda rows: publish(rows, application)).collect()
    headers = [message.headers for message in queue.admin.browse("ready").messages]
    assert headers == [{"spark-application-id": application}] * 3


@pytest.mark.parametrize("delivery", ["staged", "direct"])
def test_rows_with_the_same_key_are_published_once(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, delivery: str
) -> None:
    frame = spark.sql("select string(id) as payload, id % 3 as customer from range(0, 9, 1, 1)")
    for _ in range(2):
        save(frame, redis_url, delivery=delivery, dedupKey="customer")
    assert taken(queue) == ["0", "1", "2"]


def test_a_task_that_is_tried_again_publishes_its_rows_once(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    def fail_first(rows: Any) -> Any:
        yield from rows
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails behind its last row")

    frame = spark.createDataFrame(numbers(spark, 3_000).rdd.mapPartitions(fail_first), "payload string")
    save(frame, redis_url)
    assert sorted(taken(queue), key=int) == [str(number) for number in range(3_000)]


def test_a_job_that_fails_publishes_nothing(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    frame = spark.range(2_000, numPartitions=2).selectExpr(f"if(id = 1999, {FAILING}, string(id)) as payload")
    with pytest.raises(Exception, match="this row fails"):
        save(frame, redis_url)
    assert taken(queue) == []
    assert queue.stats().leases == 0


def test_a_sink_id_that_was_published_is_not_published_again(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    for run in ("monday", "monday", "tuesday"):
        save(numbers(spark, 2), redis_url, sinkId=f"report/{run}")
    assert taken(queue) == ["0", "1", "0", "1"]


def test_rows_dropped_because_their_sink_id_was_used_are_reported(
    redis_url: str, queue: LeasedQueue, caplog: pytest.LogCaptureFixture
) -> None:
    schema = StructType([StructField("payload", StringType())])
    writer = RmqWriter(sink_of({"url": redis_url, "queue": QUEUE, "sinkId": "run"}, schema))
    writer.commit([Written(queue.stage(["first"]))])
    assert not caplog.records
    writer.commit([Written(queue.stage(["second"]))])
    assert taken(queue) == ["first"]
    assert "sink 'run' was published before: these rows are dropped" in caplog.text


def test_a_full_queue_stays_unchanged(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    queue.publish("x")
    with pytest.raises(Exception, match="max_ready=10"):
        save(numbers(spark, 10), redis_url, maxReady=10)
    assert taken(queue) == ["x"]
    save(numbers(spark, 10), redis_url, maxReady=10)
    assert len(taken(queue)) == 10


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        ("select 'x' as payload", {"delivery": "later"}, "option delivery must be one of staged, direct, not 'later'"),
        ("select 'x' as payload, 1 as price", {}, "column 'price' would not be published"),
        ("select if(id = 1, null, 'x') as payload from range(3)", {}, "column payload is null in 1 rows"),
    ],
)
def test_a_value_that_cannot_be_published_is_refused_with_a_reason(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, select: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        save(spark.sql(select), redis_url, **options)
    assert taken(queue) == []


@pytest.mark.parametrize(("operation", "ready", "dead"), [("nack", ["1", "3"], []), ("dead", [], ["1", "3"])])
def test_failed_rows_are_written_to_the_queue_again(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, operation: str, ready: list[str], dead: list[str]
) -> None:
    queue.publish_many(map(str, range(5)))
    with claimed_batch(spark, redis_url, QUEUE, config=LeasedConfig(max_deliveries=9)) as batch:
        failed = batch.df.where("int(string(payload)) % 2 = 1").selectExpr("*", "'odd' as reason")
        save(failed, redis_url, operation=operation)
        save(failed.limit(0), redis_url, operation=operation)
    messages = queue.admin.dead_letters() if dead else []
    lease = queue.claim(max_messages=1000)  # for messages that failed before, a tenth is needed
    messages += list(lease.messages) if lease else []
    assert sorted(message.payload for message in messages) == ready + dead
    assert {message.history[0].reason for message in messages} == {"odd"}


@pytest.mark.parametrize("operation", ["nack", "dead"])
def test_a_batch_whose_rows_all_are_written_back_succeeds(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, operation: str
) -> None:
    queue.publish_many("abc")
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        save(batch.df, redis_url, operation=operation)
        batch.check()
    stats = queue.stats()
    assert (stats.ready + stats.dead, stats.leased, stats.leases) == (3, 0, 0)


def failed_rows(lease: Lease) -> FailedRows:
    """What a task reports for a lease of which every message failed."""
    return FailedRows(
        tuple(FailedDelivery(message.id, lease.id, message.deliveries, "odd") for message in lease.messages)
    )


def settler(url: str, **options: str) -> RmqSettler:
    schema = StructType([StructField(name, StringType()) for name in NAMES])
    return settler_of({"url": url, "queue": QUEUE, **options}, schema)


def test_all_messages_of_a_failed_id_are_written_back(
    redis_url: str, queue: LeasedQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.publish_many([NewMessage("1", id="same"), NewMessage("2", id="same"), NewMessage("3", id="other")])
    lease = queue.claim(max_messages=3)
    assert lease is not None
    settler(redis_url, operation="dead").commit([failed_rows(lease)])
    assert sorted(message.payload for message in queue.admin.dead_letters()) == ["1", "2", "3"]
    assert not caplog.records, "none was left alone"


def test_failed_rows_become_dead_letters_after_the_configured_number_of_deliveries(
    redis_url: str, queue: LeasedQueue
) -> None:
    queue.publish("x")
    for dead in (0, 1):
        lease = queue.claim()
        assert lease is not None
        settler(redis_url, operation="nack", maxDeliveries="2").commit([failed_rows(lease)])
        assert (queue.stats().ready, queue.stats().dead) == (1 - dead, dead)


def test_a_delivery_that_has_ended_is_left_alone(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    queue.publish("x")
    old = queue.claim(lease_id="job")
    assert old is not None
    rows = [(old.message.id, "job", old.message.deliveries), ("unknown", "job", 1), ("x", "no such lease", 1)]
    thief = queue.claim(lease_id="job")
    save(spark.createDataFrame(rows, "message_id string, lease string, deliveries int"), redis_url, operation="nack")
    assert thief is not None
    assert queue.ack(thief).settled == 1


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder)).withColumnRenamed("value", "payload")


def drop_files(folder: Path, *texts: str) -> None:
    folder.mkdir(exist_ok=True)
    for text in texts:
        (folder / text).write_text(text)


def run_stream(frame: DataFrame, checkpoint: Path, url: str, **options: Any) -> None:
    """Write all messages, batch by batch."""
    writer = frame.writeStream.format("rmq").option("url", url).option("queue", QUEUE).options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def test_each_micro_batch_of_a_stream_is_published_once(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    drop_files(tmp_path / "in", "a", "b")
    frame, checkpoint = stream_of(spark, tmp_path / "in"), tmp_path / "checkpoint"
    run_stream(frame, checkpoint, redis_url)
    assert sorted(taken(queue)) == ["a", "b"]
    # Spark forgets that it finished the last batch, as after a crash between our commit and its own record.
    for entry in (checkpoint / "commits").glob("*1*"):
        entry.unlink()
    drop_files(tmp_path / "in", "c")
    run_stream(frame, checkpoint, redis_url)
    assert taken(queue) == ["c"]
    run_stream(frame, tmp_path / "another checkpoint", redis_url)
    assert sorted(taken(queue)) == ["a", "b", "c"]


def counting(queue: LeasedQueue) -> LeasedQueue:
    queue.admin.configure(groups="exclusive")
    return queue


@pytest.mark.parametrize("delivery", ["staged", "direct"])
@pytest.mark.parametrize("headers", [False, True], ids=["plain", "with_copied_headers"])
def test_rows_are_counted_as_part_of_a_publication(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, delivery: str, headers: bool
) -> None:
    counting(queue)
    rows = numbers(spark, 3_000)
    if headers:  # those of messages that were read from another queue
        rows = rows.selectExpr("payload", "map('rmq-publication', 'before', 'h', '1') AS headers", "'g' AS group")
    save(rows, redis_url, delivery=delivery, publication="report")
    found = queue.publication("report")
    assert (found.messages, found.waiting, found.publishers, found.done) == (3_000, 3_000, 0, False)
    assert len(taken(queue)) == 3_000
    assert queue.publication("report").done
    assert [each.name for each in queue.admin.publications()] == ["report"]


def test_a_publication_does_not_end_while_tasks_publish_its_rows(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    counting(queue)

    def drained(batches: Iterator[Any]) -> Iterator[Any]:
        """Consume what other tasks have published before this task publishes."""
        for batch in batches:
            with LeasedQueue(redis_url, QUEUE) as consumer:
                taken(consumer)
                if consumer.publication("report").done:
                    raise AssertionError("it ended while tasks publish")
            yield batch

    rows = numbers(spark, 40, partitions=8).mapInArrow(drained, "payload string")
    save(rows, redis_url, delivery="direct", publication="report")
    taken(queue)
    found = queue.publication("report")
    assert (found.messages, found.acked, found.done) == (40, 40, True)


@pytest.mark.parametrize("delivery", ["staged", "direct"])
def test_a_publication_of_a_job_that_fails_can_end(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, delivery: str
) -> None:
    counting(queue)
    rows = numbers(spark, 10).selectExpr(f"IF(payload = '9', {FAILING}, payload) AS payload")
    with pytest.raises(Exception, match="this row fails"):
        save(rows, redis_url, delivery=delivery, publication="report")
    taken(queue)
    found = queue.publication("report")
    assert found.publishers == 0
    assert found.done == (delivery == "direct"), "a staged job that failed has published nothing, so nothing has ended"


@pytest.mark.parametrize("delivery", ["staged", "direct"])
def test_a_full_queue_leaves_no_publisher_behind(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, delivery: str
) -> None:
    counting(queue)
    with pytest.raises(Exception, match="QueueFull"):
        save(numbers(spark, 10), redis_url, delivery=delivery, publication="report", maxReady="3")
    assert queue.publication("report").publishers == 0


def test_a_column_names_the_publication_of_each_row(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    counting(queue)
    rows = numbers(spark, 10).selectExpr("payload", "IF(payload < '4', 'few', NULL) AS publication")
    save(rows, redis_url)
    assert (queue.publication("few").messages, queue.stats().ready) == (4, 10)


@pytest.mark.parametrize("delivery", ["staged", "direct"])
def test_a_queue_that_counts_no_publications_is_refused_before_any_task_runs(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, delivery: str
) -> None:
    rows = numbers(spark, 10).selectExpr(f"IF(payload < '99', {FAILING}, payload) AS payload")
    with pytest.raises(Exception, match="because it has no groups"):
        save(rows, redis_url, delivery=delivery, publication="report")
    assert queue.stats().ready == 0
