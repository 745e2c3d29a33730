"""Queues in SQL: temporary views keep their options; Spark drops those of tables, so each query names them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from rmq_core import LeasedQueue
from tests.spark.conftest import QUEUE

HINT = r"(?s)CREATE TEMPORARY VIEW .* WITH \('url'"


@pytest.fixture
def sql(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in which the tables and views `t`, `w` and `v` are dropped afterwards."""
    yield spark
    for name in ("t", "w"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql("DROP VIEW IF EXISTS v")


def test_a_temporary_view_keeps_its_options(sql: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b"])
    sql.sql(f"CREATE TEMPORARY VIEW v USING rmq OPTIONS (url '{redis_url}', queue '{QUEUE}', mode 'browse')")
    rows = sql.sql("SELECT string(payload) AS text FROM v WHERE state = 'ready'").collect()
    assert sorted(row.text for row in rows) == ["a", "b"]


def test_a_table_without_options_in_the_query_names_views_and_with(sql: SparkSession, redis_url: str) -> None:
    sql.sql(f"CREATE TABLE t USING rmq OPTIONS (url '{redis_url}', queue '{QUEUE}', mode 'browse')")
    with pytest.raises(Exception, match=HINT):
        sql.sql("SELECT * FROM t").collect()
    sql.sql(f"CREATE TABLE w (payload STRING) USING rmq OPTIONS (url '{redis_url}', queue '{QUEUE}')")
    with pytest.raises(Exception, match=HINT):
        sql.sql("INSERT INTO w VALUES ('a')")


def test_a_table_is_read_and_written_with_the_options_of_the_query(
    sql: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    sql.sql("CREATE TABLE t USING rmq OPTIONS (mode 'browse')")
    sql.sql("CREATE TABLE w (payload STRING) USING rmq")
    place = f"'url' = '{redis_url}', 'queue' = '{QUEUE}'"
    sql.sql(f"INSERT INTO w WITH ({place}) VALUES ('a'), ('b')")
    assert sorted(str(message.payload) for message in queue.admin.peek(9)) == ["a", "b"]
    rows = sql.sql(f"SELECT *, string(payload) AS text FROM t WITH ({place}, 'mode' = 'browse')").collect()
    assert sorted((row.text, row.state, row.headers) for row in rows) == [("a", "ready", {}), ("b", "ready", {})]


def test_a_leased_batch_is_read_from_a_table(sql: SparkSession, redis_url: str, queue: LeasedQueue) -> None:
    queue.publish_many(["a", "b"])
    lease = queue.claim(max_messages=2)
    assert lease is not None
    sql.sql("CREATE TABLE t USING rmq")
    names = {"url": redis_url, "queue": QUEUE, "lease": lease.id, "token": str(lease.token)}
    options = ", ".join(f"'{name}' = '{value}'" for name, value in names.items())
    assert sql.sql(f"SELECT count(DISTINCT message_id) AS n FROM t WITH ({options})").first() == (2,)
