"""A logical queue in four shards on a cluster of three nodes: written by executors, claimed as one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import reduce
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import redis
from pyspark.sql import DataFrame, SparkSession

from rmq_core import Lease, LeaseAlreadySettled, LeasedQueue, LeaseLost, QueueUnavailable, RedisSettings
from rmq_core.reports import SettleReport
from rmq_spark import BatchPolicy, claimed_batch, drain, shard_names
from rmq_spark.batch.ending import settled
from rmq_spark.batch.held import ShardBatch, claim_shards
from rmq_spark.place.shards import open_shards
from tests.servers import Cluster
from tests.spark.conftest import QUEUE
from tests.spark.streams import Batches

SHARDS = 4
KEEP = BatchPolicy(on_failure="keep")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with closing(Cluster("7.0")) as made:
        yield made


@pytest.fixture
def url(cluster: Cluster) -> str:
    """The URL of an empty cluster."""
    with cluster.client() as client:
        client.flushall()
    return cluster.url


@pytest.fixture
def shards(url: str) -> Iterator[list[LeasedQueue]]:
    """The shards of `work` with clients of the test."""
    with open_shards(RedisSettings.from_url(url), QUEUE, SHARDS) as opened:
        yield opened


def publish(spark: SparkSession, url: str, count: int, **options: Any) -> None:
    """Publish numbers, with themselves as their keys if `dedupKey` is set."""
    frame = spark.range(count, numPartitions=2).selectExpr("""concat('{"n":', id, '}') as payload""", "id as key")
    writer = frame if "dedupKey" in options else frame.drop("key")
    given = {"url": url, "queue": QUEUE, "shards": SHARDS, "delivery": "direct", **options}
    writer.write.format("rmq").options(**given).mode("append").save()


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row.n for row in frame.selectExpr("int(get_json_object(string(payload), '$.n')) as n").collect())


def held(shards: list[LeasedQueue]) -> list[int]:
    """Return how many messages of each shard are leased."""
    return [queue.stats().leased for queue in shards]


def ready(shards: list[LeasedQueue]) -> list[int]:
    return [queue.stats().ready for queue in shards]


def test_a_logical_queue_is_written_read_and_acked_on_all_nodes(
    spark: SparkSession, cluster: Cluster, url: str, shards: list[LeasedQueue]
) -> None:
    for _ in range(2):
        publish(spark, url, 1000, dedupKey="key")
    assert sum(ready(shards)) == 1000, "what was published again has gone to the same shards"
    assert min(ready(shards)) > 150
    assert len({cluster.owner(f"{{{queue.name}}}").port for queue in shards}) > 1
    with claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run") as batch:
        assert numbers(batch.df) == list(range(1000))
        assert len(batch) == 1000
        assert batch.df.rdd.getNumPartitions() == SHARDS
        found = batch.df.select("lease", "queue").distinct().collect()
        assert sorted(map(tuple, found)) == [(f"run/s{k}", queue.name) for k, queue in enumerate(shards)]
        batch.check()
    assert [sum(queue.stats()[:5]) for queue in shards] == [0] * SHARDS
    with claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run") as batch:
        assert (len(batch), batch.already_settled) == (0, True)


def test_a_retry_gets_exactly_the_messages_of_the_earlier_try(
    spark: SparkSession, url: str, shards: list[LeasedQueue]
) -> None:
    publish(spark, url, 8)
    with (
        pytest.raises(ZeroDivisionError),
        claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run", policy=KEEP, max_messages=3),
    ):
        print(1 // 0)
    before = held(shards)
    assert before == [1, 1, 1, 0]
    with claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run") as batch:
        assert held(shards) == before
        assert {row.deliveries for row in batch.df.collect()} == {2}
        failed = batch.df.where("lease = 'run/s1'")
        assert batch.nack(failed, reason="odd") == 1
    assert (sum(ready(shards)), sum(held(shards))) == (6, 0)
    assert [message.history[0].reason for message in shards[1].admin.peek(9) if message.history] == ["odd"]


def test_the_retry_of_a_partly_acked_batch_acks_the_rest(
    spark: SparkSession, url: str, shards: list[LeasedQueue]
) -> None:
    publish(spark, url, 8)

    def work() -> None:
        with claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run") as batch:
            shards[2].ack(batch.leases[2])
            raise SystemExit  # equivalent to a kill: it leaves the leases alone

    with pytest.raises(SystemExit):
        work()
    with claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run") as batch:
        assert (len(batch), batch.already_settled) == (0, True)
    assert [sum(queue.stats()[:5]) for queue in shards] == [0] * SHARDS


@pytest.mark.parametrize(("failed", "after"), [("lease = 'run/s3'", [0, 0, 0, 1]), ("true", [1] * SHARDS)])
def test_a_driver_that_dies_between_two_acks_has_already_settled_its_failed_rows(
    spark: SparkSession,
    url: str,
    shards: list[LeasedQueue],
    monkeypatch: pytest.MonkeyPatch,
    failed: str,
    after: list[int],
) -> None:
    publish(spark, url, 8)
    ack, acked = LeasedQueue.ack, []

    def dying(queue: LeasedQueue, lease: Lease) -> SettleReport:
        if acked:
            raise SystemExit
        acked.append(lease.id)
        return ack(queue, lease)

    def work() -> None:
        with claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run") as batch:
            rows = batch.df.where(failed).dropDuplicates(["lease"])
            assert batch.nack(rows, reason="odd") == sum(after)
            monkeypatch.setattr(LeasedQueue, "ack", dying)

    with pytest.raises(SystemExit):
        work()
    monkeypatch.undo()
    assert acked == ["run/s0"]
    with claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run") as batch:
        assert (len(batch), batch.already_settled) == (0, True)
    assert (ready(shards), held(shards)) == (after, [0] * SHARDS)
    assert [message.history[0].reason for message in shards[3].admin.peek(9)] == ["odd"]


@pytest.mark.parametrize(("policy", "after"), [(KEEP, [2, 2, 2, 2]), (BatchPolicy(), [0, 0, 0, 2])])
def test_a_failure_to_settle_failed_rows_fails_the_batch_before_any_ack(
    spark: SparkSession, url: str, shards: list[LeasedQueue], policy: BatchPolicy, after: list[int]
) -> None:
    publish(spark, url, 8)

    def unavailable(*_: object, **__: object) -> None:
        raise QueueUnavailable("Redis did not answer")

    def work() -> None:
        with claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run", policy=policy) as batch:
            batch.nack(batch.df.where("lease = 'run/s3'").limit(1))
            assert batch.verdicts is not None
            batch.verdicts._held[3].queue.nack = unavailable  # type: ignore[method-assign, assignment]

    with pytest.raises(QueueUnavailable):
        work()
    assert held(shards) == after
    assert [queue.settled(f"run/s{number}") for number, queue in enumerate(shards)] == [None] * SHARDS


def test_a_shard_that_cannot_be_claimed_releases_the_other_shards(
    spark: SparkSession, url: str, shards: list[LeasedQueue]
) -> None:
    publish(spark, url, 8)
    broken = f"rmq:{{{shards[2].name}}}:ready"
    shards[0].client.rename(broken, f"{broken} aside")
    shards[0].client.set(broken, "no list")
    with pytest.raises(Exception, match="WRONGTYPE"), claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run"):
        pytest.fail("it was claimed")
    shards[0].client.rename(f"{broken} aside", broken)
    assert (ready(shards), held(shards)) == ([2] * SHARDS, [0] * SHARDS)
    with claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run") as batch:
        assert {row.deliveries for row in batch.df.collect()} == {1}, "nothing was delivered"


def test_the_loss_of_one_shard_acks_none_and_releases_the_others(
    spark: SparkSession, url: str, shards: list[LeasedQueue]
) -> None:
    publish(spark, url, 8)
    with pytest.raises(LeaseLost, match="run/s1"), claimed_batch(spark, url, QUEUE, shards=SHARDS, lease_id="run"):
        shards[1].adopt("run/s1", owner="somebody else")
    assert held(shards) == [0, 2, 0, 0]
    assert ready(shards) == [2, 0, 2, 2]


def test_a_replaced_driver_acks_the_whole_batch_or_nothing_of_it(redis_url: str) -> None:
    for at in range(8):
        for retry_at in range(10):
            with closing(redis.Redis.from_url(redis_url)) as client:
                client.flushall()
                outcome = replaced(client, at, retry_at)
            assert outcome in {("acked", "settled", 0), ("lost", "settled", 0), ("lost", "claimed 6", 6)}, (
                at,
                retry_at,
            )


def replaced(client: redis.Redis, at: int, retry_at: int) -> tuple[str, str, int]:
    """End a batch of three shards; before its call `at`, a retry makes its calls up to `retry_at`, and then waits.

    Return how the batch and the retry ended, and how many messages are not acked.
    """
    names = ("a", "b", "c")
    stopped, ended = Event(), Event()

    def stop() -> None:
        stopped.set()
        ended.wait()

    def retry() -> str:
        try:
            queues = [LeasedQueue(client, name) for name in names]
            held = claim_shards([Calls(queue, counted, retry_at, stop) for queue in queues], **claim)  # type: ignore[arg-type]
            return f"claimed {sum(map(len, held))}"
        except LeaseAlreadySettled:
            return "settled"
        finally:
            stopped.set()

    claim: dict[str, Any] = {"max_messages": 6, "lease_id": "run"}
    counted, counted_first = count(), count()
    queues = [LeasedQueue(client, name) for name in names]
    for queue in queues:
        queue.publish_many([b"1", b"2"])
    held = claim_shards(queues, **claim)
    with ThreadPoolExecutor(1) as pool:
        started: list[Future[str]] = []

        def start() -> None:
            started.append(pool.submit(retry))
            stopped.wait()

        try:
            wrapped = [ShardBatch(Calls(each.queue, counted_first, at, start), each.lease) for each in held]  # type: ignore[arg-type]
            with settled(wrapped, "keep"):
                pass
            first = "acked"
        except (LeaseLost, LeaseAlreadySettled):
            first = "lost"
        finally:
            ended.set()
        if not started:  # the end of the batch made fewer calls
            start()
        return first, started[0].result(), sum(queue.stats().ready + queue.stats().leased for queue in queues)


@pytest.mark.parametrize("at", range(3))
def test_a_lease_that_is_lost_before_the_acks_keeps_all_messages(redis_url: str, at: int) -> None:
    queues = [LeasedQueue(redis_url, name) for name in ("a", "b", "c")]
    for queue in queues:
        queue.publish_many([b"1", b"2"])
    held = claim_shards(queues, max_messages=6)
    calls = count()

    def take() -> None:
        queues[2].adopt(held[2].lease.id, owner="another")

    wrapped = [ShardBatch(Calls(each.queue, calls, at, take), each.lease) for each in held]  # type: ignore[arg-type]
    with pytest.raises(LeaseLost), settled(wrapped, "keep"):
        pass
    assert [queue.stats().leased for queue in queues] == [2, 2, 2]


class Calls:
    """A queue that does something before the call of a number, counted over several queues."""

    def __init__(self, queue: LeasedQueue, counted: Iterator[int], at: int, act: Callable[[], None]) -> None:
        self._queue, self._counted, self._at, self._act = queue, counted, at, act

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._queue, name)
        if callable(found) and next(self._counted) == self._at:
            self._act()
        return found


def test_one_query_reads_all_shards_as_the_union_of_their_streams(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    publish(spark, url, 100, shards=2)
    source = spark.readStream.format("rmq").options(url=url, consumer="c", numPartitions=1)
    messages = reduce(DataFrame.union, [source.option("queue", name).load() for name in shard_names(QUEUE, 2)])
    batches = Batches()
    writer = messages.writeStream.foreachBatch(batches).option("checkpointLocation", str(tmp_path))
    drain(writer.start())
    assert batches.numbers == list(range(100))
    with open_shards(RedisSettings.from_url(url), QUEUE, 2) as shards:
        assert [sum(queue.stats()[:5]) for queue in shards] == [0, 0]
