"""A queue in shards, which Spark writes and reads as any other; its leases are acked as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from rmq_core import Lease, LeasedQueue, LeaseLost
from rmq_core.reports import SettleReport
from rmq_spark import BatchPolicy, claimed_batch
from tests.servers import Cluster
from tests.spark.conftest import QUEUE
from tests.spark.streams import Batches, Stream, until

SHARDS = 3
KEEP = BatchPolicy(on_failure="keep")


@pytest.fixture
def queue(queue: LeasedQueue) -> LeasedQueue:
    """The queue `work` in shards."""
    queue.admin.configure(shards=SHARDS)
    return queue


@pytest.fixture
def on_cluster() -> Iterator[tuple[LeasedQueue, str]]:
    """The queue `work` in shards on a cluster of three nodes, and the cluster's URL."""
    with closing(Cluster("7.0")) as cluster, LeasedQueue(cluster.url, QUEUE) as queue:
        queue.admin.configure(shards=SHARDS)
        yield queue, cluster.url


def save(frame: DataFrame, url: str, **options: Any) -> None:
    given = {"url": url, "queue": QUEUE, **(options or {"delivery": "direct"})}
    frame.write.format("rmq").mode("append").options(**given).save()


def rows(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count, numPartitions=2).selectExpr("""concat('{"n":', id, '}') as payload""", "id as key")


def publish(queue: LeasedQueue, count: int) -> None:
    """Publish numbers one by one, so that each shard has as many."""
    for number in range(count):
        queue.publish({"n": number})


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row.n for row in frame.selectExpr("int(get_json_object(string(payload), '$.n')) as n").collect())


def left(queue: LeasedQueue) -> tuple[int, int]:
    """Return how many messages are ready and leased."""
    stats = queue.stats()
    return stats.ready, stats.leased


def lose_part(queue: LeasedQueue, lease: Lease) -> int:
    """Delete a part, as a fail-over that lost writes does; return the number of its messages."""
    name, part = lease.parts[-1]
    prefix = f"rmq:{{{QUEUE}}}" if name == "0" else f"rmq:shard:{{{QUEUE}~{name}}}"
    assert queue.client.delete(f"{prefix}:lease:{part.id}") == 1
    return part.count


def test_a_queue_on_all_nodes_of_a_cluster_is_written_read_and_acked(
    spark: SparkSession, on_cluster: tuple[LeasedQueue, str]
) -> None:
    queue, url = on_cluster
    for _ in range(2):
        save(rows(spark, 1000), url, delivery="direct", dedupKey="key")
    assert left(queue) == (1000, 0), "what was published again is where it was"
    with claimed_batch(spark, url, QUEUE, lease_id="run") as batch:
        assert (len(batch), len(batch.lease.parts)) == (1000, SHARDS)
        assert numbers(batch.df) == list(range(1000))
        assert batch.df.select("lease", "queue").distinct().collect() == [("run", QUEUE)]
        batch.check()
    assert not any(queue.stats()[:5])
    with claimed_batch(spark, url, QUEUE, lease_id="run") as batch:
        assert (len(batch), batch.already_settled) == (0, True)


def test_a_retry_gets_exactly_the_messages_of_the_earlier_try(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 8)
    seen: list[Any] = []

    def work() -> None:
        with claimed_batch(spark, redis_url, QUEUE, lease_id="run", policy=KEEP, max_messages=6) as batch:
            seen.extend((numbers(batch.df), batch.name))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert left(queue) == (2, 6)
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        assert [numbers(batch.df), batch.name] == seen
        assert {row.deliveries for row in batch.df.collect()} == {2}
        failed = batch.df.where(f"string(payload) like '%:{seen[0][-1]}}}'")
        assert batch.nack(failed, reason="odd") == 1
    assert left(queue) == (3, 0)
    assert [message.history[0].reason for message in queue.admin.peek(9) if message.history] == ["odd"]


def test_a_driver_that_is_replaced_before_its_ack_acks_nothing(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(queue, 9)
    ack = LeasedQueue.ack

    def late(self: LeasedQueue, lease: Lease) -> SettleReport:
        assert queue.adopt("run", owner="the next driver").count == 9
        return ack(self, lease)

    with pytest.raises(LeaseLost, match="'run'"), claimed_batch(spark, redis_url, QUEUE, lease_id="run"):
        monkeypatch.setattr(LeasedQueue, "ack", late)
    monkeypatch.undo()
    assert left(queue) == (0, 9)
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        assert numbers(batch.df) == list(range(9))
    assert left(queue) == (0, 0)


def test_a_batch_that_lost_a_part_acks_nothing(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 9)
    with pytest.raises(LeaseLost, match="'run'"), claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        lost = lose_part(queue, batch.lease)
    assert left(queue) == (0, 9 - lost)
    queue.admin.expire_lease("run")
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        assert len(batch) == 9 - lost


def test_executors_that_find_a_part_gone_fail_the_batch(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 9)

    def work() -> None:
        with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
            lose_part(queue, batch.lease)
            batch.df.count()

    with pytest.raises(Exception, match=r"LeaseLost: .*'run'"):
        work()
    assert left(queue) == (0, 6)


def test_a_driver_reads_a_lease_of_its_own_under_its_token_alone(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 9)
    lease = queue.claim(max_messages=9, lease_id="mine")
    assert lease is not None
    named = spark.read.format("rmq").options(url=redis_url, queue=QUEUE, lease="mine", numPartitions=2)
    frame = named.option("token", lease.token).load()
    assert numbers(frame) == list(range(9))
    again = queue.adopt("mine", owner="another")
    with pytest.raises(Exception, match="LeaseLost"):
        frame.count()
    with pytest.raises(Exception, match="LeaseLost"):
        named.option("token", lease.token).load().count()
    save(named.option("token", again.token).load().limit(4), redis_url, operation="dead", reason="odd")
    assert queue.ack(again).settled == 5
    assert (queue.stats().dead, *left(queue)) == (4, 0, 0)


def test_browsing_shows_the_messages_of_all_shards(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 9)
    assert queue.claim(max_messages=5, lease_id="mine") is not None
    frame = spark.read.format("rmq").options(url=redis_url, queue=QUEUE, mode="browse").load()
    assert numbers(frame) == list(range(9))
    assert numbers(frame.where("lease = 'mine'")) == numbers(frame.where("state = 'leased'"))
    assert frame.where("lease = 'mine'").count() == 5


def test_rows_are_not_staged_and_the_job_is_refused_before_its_first_task(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    ran = spark.sparkContext.accumulator(0)

    def count(batches: Iterator[Any]) -> Iterator[Any]:
        ran.add(1)
        yield from batches

    with pytest.raises(Exception, match=r"stored in shards, .*delivery=direct"):
        save(rows(spark, 9).mapInArrow(count, "payload string, key long").drop("key"), redis_url, delivery="staged")
    assert ran.value == 0
    assert left(queue) == (0, 0)


def test_a_stream_gets_its_batch_again_after_a_failure_and_acks_all(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    publish(queue, 100)
    stream, before, after = Stream(spark, redis_url, tmp_path, maxMessagesPerBatch=40), Batches(), Batches()

    def fail(frame: DataFrame, number: int) -> None:
        before(frame, number)
        raise ZeroDivisionError

    with pytest.raises(Exception, match="ZeroDivisionError"):
        stream.drain(fail)
    assert left(queue) == (60, 40)
    stream.drain(after)
    assert after.seen[0] == before.seen[0]
    assert after.numbers == list(range(100))
    assert not any(queue.stats()[:5])


def test_a_stream_is_written_into_shards(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    source = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    target = {"url": redis_url, "queue": QUEUE, "delivery": "direct", "checkpointLocation": str(tmp_path)}
    writer = source.selectExpr("string(value) as payload").writeStream.format("rmq").options(**target)
    query = writer.trigger(processingTime="300 milliseconds").start()
    try:
        until(lambda: queue.stats().ready >= 200, query)
    finally:
        query.stop()
    lease = queue.claim(max_messages=100_000, lease_id="all")
    assert lease is not None
    found = sorted(int(str(message.payload)) for message in queue.messages(lease))
    assert found == list(range(len(found)))
