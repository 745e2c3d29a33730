from __future__ import annotations

import io
import urllib.request
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import SparkSession

from rmq_core import JobQueue, Lease, LeasedQueue, RedisSettings
from rmq_spark import MESSAGE_SCHEMA, claimed_batch
from tests.spark.conftest import QUEUE

CANARY = "canary-5d1e9a"


@pytest.fixture
def lease(queue: LeasedQueue) -> Lease:
    """Ten leased messages."""
    queue.publish_many(["x"] * 10)
    lease = queue.claim(max_messages=10)
    assert lease is not None
    return lease


def options(url: str, leased: Lease, **changes: str) -> dict[str, str]:
    return {"url": url, "queue": QUEUE, "lease": leased.id, "token": str(leased.token)} | changes


def test_spark_finds_the_format_without_registration(spark: SparkSession, redis_url: str, lease: Lease) -> None:
    frame = spark.read.format("rmq").options(**options(redis_url, lease, numPartitions="3")).load()
    assert frame.schema == MESSAGE_SCHEMA
    assert frame.count() == 10
    assert frame.rdd.getNumPartitions() == 3


def test_a_lease_of_a_job_queue_is_read_like_one_of_messages(spark: SparkSession, redis_url: str) -> None:
    with JobQueue(redis_url, QUEUE) as jobs:
        jobs.publish_many([{"n": number} for number in range(10)])
        lease = jobs.claim(max_messages=8)
        assert lease is not None
        frame = spark.read.format("rmq").options(**options(redis_url, lease, discipline="jobs")).load()
        assert sorted(bytes(row.payload) for row in frame.collect()) == [b'{"n":%d}' % n for n in range(8)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token": "1.stale"}, "is lost"),
        ({"lease": "no such lease"}, "'no such lease' is lost"),
        ({"queue": ""}, "needs the option 'queue'"),
        ({"token": ""}, "needs the option 'token'"),
        ({"numPartitions": "0"}, "option numPartitions must be a whole number >= 1, not '0'"),
        ({"leese": "x"}, "did you mean 'lease'"),
        ({"mode": "peek"}, "option mode must be one of claim, browse, not 'peek'"),
        ({"discipline": "rotation"}, "use leased or jobs"),
    ],
)
def test_an_unreadable_queue_or_lease_is_refused_with_a_reason(
    spark: SparkSession, redis_url: str, lease: Lease, changes: dict[str, str], message: str
) -> None:
    frame: Any = spark.read.format("rmq").options(**options(redis_url, lease, **changes))
    with pytest.raises(Exception, match=message):
        frame.load().count()


def test_a_misspelt_option_is_refused_by_load_before_anything_is_read(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="has no option 'qeue' here; did you mean 'queue'"):
        spark.read.format("rmq").options(url="redis://localhost:1", qeue=QUEUE).load()
    with pytest.raises(Exception, match="did you mean 'consumer'"):
        spark.readStream.format("rmq").options(url="redis://localhost:1", queue=QUEUE, consumr="c").load()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"qeue": QUEUE}, "did you mean 'queue'"),
        ({"queue": QUEUE}, "needs the option 'lease'"),
        ({"queue": "unknown", "mode": "browse"}, "this server has no queue 'unknown'"),
    ],
)
def test_the_first_line_of_an_error_states_what_is_wrong(
    spark: SparkSession, redis_url: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message) as caught:
        spark.read.format("rmq").options(url=redis_url, **options).load().count()
    assert message in str(caught.value).splitlines()[0]
    assert "Traceback" not in str(caught.value)


def test_password_and_token_show_up_nowhere(
    spark: SparkSession, redis_url: str, event_log: Path, queue: LeasedQueue
) -> None:
    queue.publish_many(["x"] * 10)
    with redis.Redis.from_url(redis_url) as client:
        client.execute_command("ACL", "SETUSER", "spark", "reset", "on", f">{CANARY}", "~*", "&*", "+@all")
    settings = RedisSettings.from_url(redis_url, username="spark", password=CANARY)
    shown = io.StringIO()
    with claimed_batch(spark, settings, QUEUE) as batch, redirect_stdout(shown):
        batch.df.createOrReplaceTempView("messages")
        assert spark.sql("select count(distinct message_id) from messages").first() == (10,)
        batch.df.explain("extended")
        print(batch, batch.lease)
        pages = [fetch(spark, page) for page in ("environment/", "SQL/", "SQL/execution/?id=0", "jobs/")]
    logs = [path.read_text() for path in event_log.rglob("events_*")]
    assert any("BatchScan rmq_" in log for log in logs)
    for text in (*pages, *logs, shown.getvalue()):
        assert CANARY not in text
        assert str(batch.lease.token) not in text


def fetch(spark: SparkSession, page: str) -> str:
    with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/{page}") as answer:
        return str(answer.read().decode())
