from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rmq_core import ConfigurationError, LeaseAlreadySettled, LeasedConfig, LeasedQueue, LeaseLost, RedisSettings
from rmq_core.orchestrate import Handover
from rmq_core.tracing import traced
from rmq_spark import MESSAGE_SCHEMA, BatchPolicy, adopted_batch, claimed_batch
from tests.core.leases import frequent_heartbeats
from tests.payload_kinds import PUBLISHED, READ
from tests.spark.conftest import QUEUE, wait_for
from tests.tracing import Spans, id_of

KEEP = BatchPolicy(on_failure="keep")
ONE_PARTITION = BatchPolicy(partitions=1)


def numbers(frame: DataFrame) -> list[int]:
    return sorted(json.loads(bytes(row.payload))["n"] for row in frame.select("payload").collect())


def publish(queue: LeasedQueue, count: int) -> None:
    queue.publish_many([{"n": number} for number in range(count)], headers={"source": "test"})


def test_the_application_owns_the_lease_of_a_batch_unless_another_owner_is_given(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 2)
    application = spark.sparkContext.applicationId
    with (
        claimed_batch(spark, redis_url, QUEUE, max_messages=1) as batch,
        claimed_batch(spark, redis_url, QUEUE, owner="me") as other,
    ):
        assert (batch.lease.owner, other.lease.owner) == (f"spark:{application}", "me")


def test_a_frame_has_the_bytes_of_every_kind_of_payload_compressed_or_not(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    long = {"text": "x" * 5000}
    queue.publish_many([*PUBLISHED, long])
    queue.admin.configure(compress_above=100)
    queue.publish_many([*PUBLISHED, long])
    expected = [*READ, long] * 2
    messages = list(queue.admin.peek(99))
    with claimed_batch(spark, redis_url, QUEUE) as batch:
        found = {row.message_id: bytes(row.payload) for row in batch.df.collect()}
    assert found == {message.id: message.raw for message in messages}
    for message, value in zip(messages, expected, strict=True):
        read = found[message.id] if isinstance(value, bytes) else found[message.id].decode()
        assert read == value if isinstance(value, str | bytes) else json.loads(read) == value


def test_a_batch_of_some_groups_has_their_messages_alone(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    queue.admin.configure(groups="fair")
    for number, group in enumerate("aab"):
        queue.publish({"n": number}, group=group)
    with claimed_batch(spark, redis_url, QUEUE, groups=["a"]) as batch:
        assert numbers(batch.df) == [0, 1]
        assert {row["group"] for row in batch.df.select("group").collect()} == {"a"}
    assert queue.stats()[:3] == (1, 0, 0)


def test_the_spans_of_a_traced_batch_link_to_its_publisher_and_to_its_claim(
    spark: SparkSession,
    redis_url: str,
    queue: LeasedQueue,
    handover: Callable[..., dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spans, policy = Spans(monkeypatch), BatchPolicy(traced=True)
    traced(queue).publish_many(["secret", "b", "c"])
    with claimed_batch(spark, redis_url, QUEUE, max_messages=2, policy=policy) as batch:
        assert batch.df.count() == 2
    publish, claim, ack = spans.ended
    assert [spans.linked(span) for span in (claim, ack)] == [[id_of(publish)] * 2, [id_of(claim)]]
    queue.claim(lease_id="job", owner="try-1")
    with adopted_batch(spark, Handover.from_environment(handover("job")), policy=policy):
        pass
    adopt, ack = spans.ended[-2:]
    assert (adopt.name, spans.linked(ack)) == (f"adopt {QUEUE}", [id_of(adopt)])


def test_every_message_is_read_once_and_acked(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 2500)
    with claimed_batch(spark, redis_url, QUEUE, max_messages=2000, lease_id="run") as batch:
        assert len(batch) == 2000
        assert numbers(batch.df) == list(range(2000))
        assert batch.df.rdd.getNumPartitions() == 4
    assert queue.stats()._replace(oldest_age=None)[:4] == (500, 0, 0, 0)
    record = queue.settled("run")
    assert record is not None
    assert record.acked == 2000


def test_the_columns_contain_everything_about_a_message(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    message_id = queue.publish("hello", headers={"a": "b"}).id
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        assert batch.df.schema == MESSAGE_SCHEMA
        row = batch.df.first()
    assert row is not None
    assert row.asDict() | {"enqueued_at": None} == {
        "message_id": message_id,
        "group": "",
        "priority": "",
        "publication": "",
        "expires": "",
        "payload": bytearray(b"hello"),
        "headers": {"a": "b"},
        "deliveries": 1,
        "enqueued_at": None,
        "lease": "run",
        "queue": QUEUE,
    }
    assert abs(row.enqueued_at.timestamp() - time.time()) < 60


def test_a_failing_block_nacks(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 3)
    with pytest.raises(ZeroDivisionError), claimed_batch(spark, redis_url, QUEUE, max_messages=2):
        print(1 // 0)
    assert queue.stats().ready == 3
    reasons = [message.history[0].reason for message in queue.admin.peek(2)]
    assert reasons == ["ZeroDivisionError: integer division or modulo by zero"] * 2


def test_a_failure_can_keep_the_lease_for_a_retry(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 3)
    with pytest.raises(ZeroDivisionError), claimed_batch(spark, redis_url, QUEUE, lease_id="run", policy=KEEP):
        print(1 // 0)
    assert queue.stats().leased == 3
    publish(queue, 1)
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        assert numbers(batch.df) == [0, 1, 2]
        assert {row.deliveries for row in batch.df.collect()} == {2}


def test_the_name_of_a_batch_is_that_of_its_claim(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 2)
    names: list[str] = []

    def work(policy: BatchPolicy) -> None:
        with claimed_batch(spark, redis_url, QUEUE, lease_id="run", policy=policy) as batch:
            names.append(batch.name)
            print(1 // 0)

    for policy in (KEEP, BatchPolicy(), KEEP):
        with pytest.raises(ZeroDivisionError):
            work(policy)
    assert names[0] == names[1], "the second try took the lease over"
    assert names[2] != names[0], "the third claimed anew, for the second had nacked"
    assert names[0].startswith("run@")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_leaves_the_lease_alone(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, interruption: type[BaseException]
) -> None:
    publish(queue, 3)
    with pytest.raises(interruption), claimed_batch(spark, redis_url, QUEUE, lease_id="run"):
        raise interruption
    info = queue.lease_info("run")
    assert info is not None
    assert (info.count, info.settled) == (3, 0)


def test_a_batch_that_was_acked_before_is_skipped(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 2)
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run", max_messages=1):
        pass
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        assert (len(batch), batch.already_settled, batch.df.count()) == (0, True, 0)
    with pytest.raises(LeaseAlreadySettled), claimed_batch(
        spark, redis_url, QUEUE, lease_id="run", policy=BatchPolicy(on_settled="raise")
    ):  # fmt: skip
        pytest.fail("nothing is there to work on")
    assert queue.stats().ready == 1


def test_a_batch_acked_except_for_failed_rows_is_skipped_too(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 3)
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        assert batch.nack(batch.df.limit(1), delay=60) == 1
    publish(queue, 1)
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        assert (len(batch), batch.already_settled) == (0, True)
    assert queue.stats()[:3] == (1, 1, 0)


def test_a_retried_task_reads_the_same_messages(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    publish(queue, 100)

    def fail_once(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        task = TaskContext.get()
        assert task is not None
        for part in parts:
            (tmp_path / f"{task.partitionId()}-{task.attemptNumber()}").write_text(" ".join(part["message_id"]))
            if task.attemptNumber() == 0:
                raise RuntimeError("the first attempt of every task fails")
            yield part

    with claimed_batch(spark, redis_url, QUEUE) as batch:
        assert batch.df.mapInPandas(fail_once, batch.df.schema).count() == 100
    seen = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(seen) == 8
    assert all(seen[f"{partition}-0"] == seen[f"{partition}-1"] for partition in range(4))


def test_the_unsettled_rest_of_a_partly_settled_lease_is_read(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 20)
    lease = queue.claim(max_messages=20, lease_id="run")
    assert lease is not None
    queue.ack(lease, [message for message in lease.messages if message.index % 3])
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        assert len(batch) == 7
        assert numbers(batch.df) == [0, 3, 6, 9, 12, 15, 18]


def test_a_slice_that_lost_messages_raises_instead_of_giving_fewer_rows(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 20)
    with claimed_batch(spark, redis_url, QUEUE, policy=ONE_PARTITION) as batch:
        queue.ack(batch.lease, [next(iter(queue.messages(batch.lease)))])
        with pytest.raises(Exception, match="19 of 20 messages"):
            batch.df.count()


def test_a_lease_that_was_taken_over_cannot_be_read_or_acked(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 5)
    frames = []

    def work() -> None:
        with claimed_batch(spark, redis_url, QUEUE, lease_id="run", policy=ONE_PARTITION) as batch:
            frames.append(batch.df)
            queue.adopt("run", owner="somebody else")

    with pytest.raises(LeaseLost):
        work()
    assert queue.stats().leased == 5
    with pytest.raises(Exception, match="is lost"):
        frames[0].count()


def test_a_takeover_cancels_the_running_job(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 4)

    def slowly(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        time.sleep(60)
        yield from parts

    taken_at = []

    def take() -> None:
        queue.adopt("run", owner="somebody else")
        taken_at.append(time.monotonic())

    def work() -> None:
        with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
            threading.Timer(2, take).start()
            batch.df.mapInPandas(slowly, batch.df.schema).count()

    with pytest.raises(LeaseLost):
        work()
    assert time.monotonic() - taken_at[0] < 45, "the job ran to its end instead of being cancelled"
    info = queue.lease_info("run")
    assert info is not None
    assert info.owner == "somebody else"


@pytest.mark.parametrize(
    "short", [{"lease": 60}, {"config": LeasedConfig(lease=60)}], ids=["of the claim", "of the queue"]
)
def test_the_heartbeat_keeps_a_short_lease_alive(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, short: dict[str, Any]
) -> None:
    publish(queue, 4)

    def deadline() -> float:
        return float(queue.client.zscore("rmq:{work}:leases", "run"))

    with frequent_heartbeats(), claimed_batch(spark, redis_url, QUEUE, lease_id="run", **short) as batch:
        for _ in range(3):
            before = deadline()
            queue.client.zincrby("rmq:{work}:leases", -30_000, "run")  # half of the lease passes at once
            wait_for(lambda before=before: deadline() >= before, 300)
        assert queue.backlog().ready == 0
        batch.check()
    assert queue.settled("run") is not None


def test_the_jobs_of_others_are_left_alone(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 1)
    spark.sparkContext.addJobTag("mine")
    with claimed_batch(spark, redis_url, QUEUE):
        assert len(spark.sparkContext.getJobTags()) == 2
    assert list(spark.sparkContext.getJobTags()) == ["mine"]
    spark.sparkContext.removeJobTag("mine")


def test_a_handed_over_lease_is_adopted_and_acked(
    spark: SparkSession, queue: LeasedQueue, handover: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(queue, 10)
    queue.claim(max_messages=10, lease_id="run", owner="try-1")
    for name, value in handover("run").items():
        monkeypatch.setenv(name, value)
    with adopted_batch(spark, policy=KEEP) as batch:
        assert numbers(batch.df) == list(range(10))
        assert {row.deliveries for row in batch.df.collect()} == {1}
    record = queue.settled("run")
    assert record is not None
    assert (record.acked, record.owner) == (10, "try-1")


def test_a_handed_over_lease_is_held_as_long_as_the_submitter_configures(
    spark: SparkSession, queue: LeasedQueue, handover: Any
) -> None:
    publish(queue, 1)
    queue.claim(lease_id="run", owner="try-1")
    given = replace(Handover.from_environment(handover("run")), lease_ms=3_600_000)
    with adopted_batch(spark, given, policy=KEEP):
        info = queue.lease_info("run")
    assert info is not None
    assert info.deadline is not None
    assert info.deadline.timestamp() - time.time() > 3000


def test_a_failed_job_leaves_the_lease_to_the_next_driver_for_the_time_that_the_parameters_say(
    spark: SparkSession, queue: LeasedQueue, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(queue, 10)
    lease = queue.claim(max_messages=10, lease_id="run", owner="try-1")
    assert lease is not None
    given = Handover(RedisSettings.from_url(redis_url), QUEUE, lease.id, lease.owner, 60_000, adopt_ms=3_600_000)
    monkeypatch.setattr(sys, "argv", ["job.py", *given.parameters()])
    with pytest.raises(ZeroDivisionError), adopted_batch(spark, policy=KEEP):
        print(1 // 0)
    info = queue.lease_info("run")
    assert info is not None
    assert info.deadline is not None
    assert info.deadline.timestamp() - time.time() > 3000
    with adopted_batch(spark, policy=KEEP) as batch:
        assert len(batch) == 10
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_a_lease_of_another_owner_is_not_adopted(spark: SparkSession, queue: LeasedQueue, handover: Any) -> None:
    publish(queue, 1)
    queue.claim(lease_id="run", owner="try-2")
    given = Handover.from_environment(handover("run", owner="try-1"))
    with pytest.raises(LeaseLost), adopted_batch(spark, given, policy=KEEP):
        pytest.fail("it was adopted")
    assert queue.stats().leased == 1


def test_failed_rows_are_nacked_with_their_reason_and_the_others_acked(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 10)
    number = F.get_json_object(F.col("payload").cast("string"), "$.n").cast("int")
    with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
        judged = batch.df.withColumn("n", number)
        assert batch.nack(judged.where("n = 3"), reason="three") == 1
        assert batch.nack(judged.where("n > 6"), reason=F.concat(F.lit("n="), "n"), delay=600) == 3
        assert queue.stats().leased == 10, "verdicts wait for the end of the block"
        assert numbers(batch.df) == list(range(10))
    assert [message.history[0].reason for message in queue.admin.peek(9)] == ["three"]
    delayed = queue.admin.browse("delayed").messages
    assert sorted(message.history[0].reason for message in delayed) == ["n=7", "n=8", "n=9"]
    assert queue.stats()._replace(oldest_age=None)[:5] == (1, 3, 0, 0, 0)


def test_a_row_that_fails_again_and_again_becomes_a_dead_letter(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 2)
    once = LeasedConfig(max_deliveries=1)
    with claimed_batch(spark, redis_url, QUEUE, config=once) as batch:
        batch.nack(batch.df.limit(1), reason="not a number")
    assert [message.history[0].reason for message in queue.admin.dead_letters()] == ["not a number"]
    assert queue.stats()._replace(oldest_age=None)[:5] == (0, 0, 0, 0, 1)


def test_a_failing_block_nacks_failed_rows_with_their_own_reason(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 3)

    def work() -> None:
        with claimed_batch(spark, redis_url, QUEUE) as batch:
            batch.nack(batch.df.limit(1), reason="poison")
            print(1 // 0)

    with pytest.raises(ZeroDivisionError):
        work()
    reasons = sorted(message.history[0].reason for message in queue.admin.peek(3))
    assert reasons == ["ZeroDivisionError: integer division or modulo by zero"] * 2 + ["poison"]


def test_a_failing_block_that_keeps_its_lease_discards_its_nacks(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 3)

    def work() -> None:
        with claimed_batch(spark, redis_url, QUEUE, lease_id="run", policy=KEEP) as batch:
            batch.nack(batch.df)
            print(1 // 0)

    with pytest.raises(ZeroDivisionError):
        work()
    assert queue.stats().leased == 3


def test_rows_of_another_batch_are_refused(spark: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    publish(queue, 1)
    strangers = spark.createDataFrame([("no such id",)], "message_id string")
    with claimed_batch(spark, redis_url, QUEUE) as batch:
        with pytest.raises(ConfigurationError, match="1 of its 1 message ids are not of this batch, such as 'no such"):
            batch.nack(strangers)
        with pytest.raises(ConfigurationError, match="`failed` has no column message_id, only payload"):
            batch.nack(batch.df.select("payload"))
    assert queue.stats().leases == 0


def test_a_block_that_swallows_the_loss_still_acks_nothing(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    publish(queue, 5)

    def work() -> None:
        with claimed_batch(spark, redis_url, QUEUE, lease_id="run") as batch:
            assert batch.watch is not None
            # As the guard does while Redis is unreachable; by the time of the ack, Redis is reachable again.
            batch.watch.lose(batch.lease)

    with pytest.raises(LeaseLost):
        work()
    info = queue.lease_info("run")
    assert info is not None
    assert (info.count, info.settled) == (5, 0)
