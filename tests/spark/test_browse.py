from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, datasource

from rmq_core import JobQueue, LeasedQueue
from rmq_spark.place.options import OptionValues
from rmq_spark.read.browse import BROWSE, browse_reader
from rmq_spark.schema import BROWSE_SCHEMA
from tests.spark.conftest import QUEUE

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def filled(queue: LeasedQueue) -> LeasedQueue:
    """A queue with one message dead, two leased one by one, two delayed and three ready."""
    queue.publish("dead")
    for _ in range(queue.config.max_deliveries or 0):
        lease = queue.claim()
        assert lease is not None
        queue.nack(lease, reason="no good")
    for name in ("a", "b"):
        queue.publish(f"leased {name}", headers={"lease": name})
        queue.claim(lease_id=name, owner="somebody")
    queue.publish_many(["delayed 1", "delayed 2"], delay=3600)
    queue.publish_many(["ready 1", "ready 2", "ready 3"])
    return queue


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    """Spark's setting without which it refuses readers that take filters."""
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


def browse(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    reader = spark.read.format("rmq").options(url=url, queue=QUEUE, mode="browse")
    return reader.options(**options).load()


def texts(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.payload).decode() for row in frame.select("payload").collect())


def test_everything_a_queue_holds_is_shown_and_nothing_changes(
    spark: SparkSession, redis_url: str, filled: LeasedQueue
) -> None:
    before, leases = filled.stats()._replace(oldest_age=None, oldest_lease=None), filled.admin.leases()
    frame = browse(spark, redis_url)
    assert frame.schema == BROWSE_SCHEMA
    rows = {bytes(row.payload).decode(): row for row in frame.collect()}
    assert len(rows) == 8
    assert {name: rows[name].state for name in ("dead", "leased a", "delayed 1", "ready 1")} == {
        "dead": "dead", "leased a": "leased", "delayed 1": "delayed", "ready 1": "ready",
    }  # fmt: skip
    assert rows["dead"].reason == "no good"
    assert (rows["leased b"].lease, rows["leased b"].headers, rows["ready 1"].lease) == ("b", {"lease": "b"}, None)
    assert rows["delayed 1"].due_at.timestamp() > time.time() + 60
    assert rows["ready 1"].due_at is None
    assert filled.stats()._replace(oldest_age=None, oldest_lease=None) == before
    assert filled.admin.leases() == leases


@pytest.mark.skipif(not hasattr(datasource, "EqualTo"), reason="Spark pushes no filters to Python sources before 4.1")
def test_filters_are_applied_while_messages_are_read(
    spark: SparkSession, redis_url: str, filled: LeasedQueue, pushdown: None
) -> None:
    frame = browse(spark, redis_url, pushFilters=True)
    ready = frame.where("state = 'ready' and payload is not null")
    assert ready.rdd.getNumPartitions() == 1
    assert texts(ready) == ["ready 1", "ready 2", "ready 3"]
    assert texts(frame.where("lease = 'b'")) == ["leased b"]
    assert texts(frame.where("deliveries > 5")) == ["dead"]


def test_messages_beyond_one_page_are_all_shown(redis_url: str, queue: LeasedQueue) -> None:
    queue.publish_many([f"{number:05}" for number in range(5000)])
    queue.claim(max_messages=2500, lease_id="many")
    assert read(redis_url, state="ready") == [f"{number:05}" for number in range(2500, 5000)]
    assert read(redis_url, state="leased") == [f"{number:05}" for number in range(2500)]


def test_a_queue_of_another_discipline_shows_its_ready_and_dead(redis_url: str) -> None:
    with JobQueue(redis_url, QUEUE) as jobs:
        jobs.publish_many([{"n": 1}, {"n": 2}])
    assert read(redis_url, discipline="jobs") == ['{"n":1}', '{"n":2}']


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "raedy"}, "option state must be one or several of ready, leased, delayed, dead"),
        ({"queue": "wrok"}, "this server has no queue 'wrok'; did you mean 'work'"),
        ({"stat": "ready"}, "did you mean 'state'"),
    ],
)
def test_an_unsupported_option_is_refused_with_a_reason(
    redis_url: str, filled: LeasedQueue, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        read(redis_url, **options)


def read(url: str, **options: str) -> list[str]:
    """Return the payloads, read as Spark would, without Spark."""
    reader = browse_reader(OptionValues({"url": url, "queue": QUEUE, **options}, BROWSE))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [payload.decode() for batch in batches for payload in batch.column("payload").to_pylist()]
