"""Upsert into PostgreSQL from the executors, keyed by message id: effects exactly once, with any number of executors.

CREATE TABLE orders (message_id text PRIMARY KEY, number int, amount double precision)
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from functools import partial

import psycopg2
from psycopg2.extras import execute_values
from pyspark.sql import Row, SparkSession

import rmq_spark
from example_dags.spark.orders import orders

UPSERT = """INSERT INTO orders (message_id, number, amount) VALUES %s
    ON CONFLICT (message_id) DO UPDATE SET number = excluded.number, amount = excluded.amount"""


def upsert(dsn: str, rows: Iterable[Row]) -> None:
    """Write one partition in one transaction. A retried task updates its rows with the same values."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        execute_values(cursor, UPSERT, rows, page_size=1000)


def run(spark: SparkSession, url: str, dsn: str, run_id: str) -> int:
    """Do the work of one run of an orchestrator; return the number of messages."""
    with rmq_spark.claimed_batch(spark, url, "orders", lease_id=run_id) as batch:
        if batch:
            orders(batch.df).foreachPartition(partial(upsert, dsn))
    return len(batch)
