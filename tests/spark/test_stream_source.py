from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, datasource

from rmq_core import LeasedQueue
from rmq_spark import MESSAGE_SCHEMA, drain, register
from rmq_spark.versions import HAS_LIMITS
from tests.spark.streams import PATIENCE_S, Batches, Stream, until

CANARY = "canary-77ab1c"


@pytest.fixture
def stream(spark: SparkSession, redis_url: str, tmp_path: Path) -> Stream:
    """A query on an empty queue."""
    return Stream(spark, redis_url, tmp_path)


def publish(queue: Any, *numbers: int) -> None:
    queue.publish_many([{"n": number} for number in numbers])


@pytest.mark.skipif(not HAS_LIMITS, reason="Spark hides the trigger before 4.2; the next test is for that")
def test_available_now_takes_all_ready_messages_in_batches_and_acks_them(
    spark: SparkSession, redis_url: str, tmp_path: Path, queue: LeasedQueue
) -> None:
    publish(queue, *range(45))
    batches = Batches()
    query = Stream(spark, redis_url, tmp_path, maxMessagesPerBatch=20).start(batches, availableNow=True)
    assert query.awaitTermination(PATIENCE_S)
    assert batches.sizes == [20, 20, 5]
    lag = [json.loads(progress.sources[0].latestOffset) for progress in query.recentProgress]
    assert [each["ready"] for each in lag[:3]] == [25, 5, 0]
    assert lag[0]["oldest_s"] >= 0
    assert batches.numbers == list(range(45))
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


@pytest.mark.skipif(HAS_LIMITS, reason="Spark passes the trigger from 4.2 on; the test above covers that")
def test_available_now_takes_one_batch_a_run_and_the_next_run_acks_it(
    spark: SparkSession, redis_url: str, tmp_path: Path, queue: LeasedQueue
) -> None:
    publish(queue, *range(45))
    batches = Batches()
    stream = Stream(spark, redis_url, tmp_path, maxMessagesPerBatch=20)
    for number in range(2):
        query = stream.start(batches, availableNow=True)
        assert query.awaitTermination(PATIENCE_S)
        assert batches.sizes == [20] * (number + 1)
        assert queue.stats().leased == 20
    drain(stream.start(batches))
    assert batches.sizes == [20, 20, 5]
    assert batches.numbers == list(range(45))
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


@pytest.mark.skipif(HAS_LIMITS, reason="Spark 4.2 ignores the setting for a source that knows the trigger")
def test_a_wrapper_of_available_now_that_claims_before_the_checkpoint_is_known_is_refused(
    spark: SparkSession, stream: Stream, queue: LeasedQueue
) -> None:
    publish(queue, 1)
    batches = Batches()
    wrapper = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
    spark.conf.set(wrapper, value=True)
    try:
        assert stream.start(batches, availableNow=True).awaitTermination(PATIENCE_S)
        assert batches.numbers == [1]
        with pytest.raises(StreamingQueryException, match=f"{wrapper}: leave it false"):
            stream.start(batches, availableNow=True).awaitTermination(PATIENCE_S)
    finally:
        spark.conf.unset(wrapper)


@pytest.mark.parametrize("way", ["option", "register"])
def test_the_leases_of_a_stream_name_the_application_where_spark_or_the_query_tells_it(
    spark: SparkSession, redis_url: str, tmp_path: Path, queue: LeasedQueue, way: str
) -> None:
    publish(queue, 1)
    application, owners = spark.sparkContext.applicationId, []
    if way == "register":
        register(spark)
    stream = Stream(spark, redis_url, tmp_path, **{"application": application} if way == "option" else {})
    stream.drain(lambda _, __: owners.extend(lease.owner for lease in queue.admin.leases()))
    (owner,) = owners
    # Spark 4.0 does not replace a format that it has found by itself.
    named = way == "option" or hasattr(datasource, "DataSourceStreamArrowWriter")
    assert owner.startswith(f"spark:{application}/" if named else "spark-")


def test_a_query_processes_arriving_messages_and_acks_each_batch_before_the_next(
    stream: Stream, queue: LeasedQueue
) -> None:
    batches = Batches()
    with stream.running(batches) as query:
        for number in range(3):
            publish(queue, number)
            until(lambda: len(batches.rows) > number, query)  # noqa: B023
            until(lambda: queue.stats().leased == 0, query)
    assert batches.numbers == [0, 1, 2]
    assert batches.rows[0].__fields__ == MESSAGE_SCHEMA.names


def test_a_batch_that_fails_is_read_again_by_the_restart(stream: Stream, queue: LeasedQueue) -> None:
    publish(queue, *range(10))
    seen: list[int] = []

    def fail(frame: DataFrame, number: int) -> None:
        seen.extend(numbers_of(frame))
        raise ZeroDivisionError

    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        stream.drain(fail)
    assert queue.stats().leased == 10
    publish(queue, *range(10, 15))
    batches = Batches()
    stream.drain(batches)
    assert batches.seen == [(0, sorted(seen)), (1, [10, 11, 12, 13, 14])]
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_query_with_asynchronous_progress_fails_with_an_error_that_names_the_option(
    spark: SparkSession, redis_url: str, tmp_path: Path, queue: LeasedQueue
) -> None:
    publish(queue, *range(30))
    stream = Stream(spark, redis_url, tmp_path, maxMessagesPerBatch=10)
    source = spark.readStream.format("rmq").options(**stream.options).load()
    # Spark itself refuses it for most sinks, foreachBatch among them.
    writer = source.writeStream.format("noop").option("checkpointLocation", str(stream.checkpoint))
    query = writer.option("asyncProgressTrackingEnabled", value=True).start()
    with pytest.raises(StreamingQueryException, match="asyncProgressTrackingEnabled: leave it out") as refused:
        query.awaitTermination(PATIENCE_S)
    assert "Traceback" not in str(refused.value)
    assert queue.stats()[:3] == (10, 0, 10), "one batch was acked, the second is refused, the third not claimed"


def test_a_deleted_entry_of_the_commit_log_is_refused_instead_of_an_empty_batch(
    stream: Stream, queue: LeasedQueue
) -> None:
    publish(queue, *range(10))
    stream.drain(Batches())
    stream.forget("commits", 0)
    replayed = Batches()
    with pytest.raises(StreamingQueryException, match="was finished and acked"):
        stream.drain(replayed)
    assert replayed.seen == []
    publish(queue, *range(10, 15))
    stream.options["failOnDataLoss"] = False
    stream.drain(replayed)
    assert replayed.seen == [(0, []), (1, [10, 11, 12, 13, 14])]
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_password_and_token_show_up_nowhere(
    spark: SparkSession, redis_url: str, event_log: Path, queue: LeasedQueue, tmp_path: Path
) -> None:
    publish(queue, *range(10))
    with redis.Redis.from_url(redis_url) as client:
        client.execute_command("ACL", "SETUSER", "streamer", "reset", "on", f">{CANARY}", "~*", "&*", "+@all")
    stream = Stream(spark, redis_url, tmp_path, username="streamer", password=CANARY)
    shown, tokens = io.StringIO(), []

    def handle(frame: DataFrame, number: int) -> None:
        with redirect_stdout(shown):
            frame.explain("extended")
            print(frame.collect())
        tokens.extend(token_of(queue, row.lease) for row in frame.limit(1).collect())

    query = stream.start(handle, availableNow=True)
    assert query.awaitTermination(PATIENCE_S)
    texts = [shown.getvalue(), str(query.lastProgress), str(query.status)]
    texts += [path.read_text() for path in stream.checkpoint.rglob("*") if path.is_file() and path.suffix != ".crc"]
    texts += [path.read_text() for path in event_log.rglob("events_*")]
    assert len(tokens) == 1
    for text in texts:
        assert CANARY not in text
        assert tokens[0] not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"consumer": ""}, "needs the option 'consumer'"),
        ({"maxMessagePerBatch": "3"}, "did you mean 'maxMessagesPerBatch'"),
    ],
)
def test_a_query_that_cannot_run_reports_why(
    spark: SparkSession, redis_url: str, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises((AnalysisException, StreamingQueryException), match=message):
        Stream(spark, redis_url, tmp_path, **options).drain(Batches())


def numbers_of(frame: DataFrame) -> list[int]:
    return [json.loads(bytes(row.payload))["n"] for row in frame.select("payload").collect()]


def token_of(queue: LeasedQueue, lease_id: str) -> str:
    """Return the token, which only Redis and the holder know."""
    head = queue.client.lindex(f"rmq:{{{queue.name}}}:lease:{lease_id}", 0)
    return str(head.decode().split(" ")[0])
