"""MERGE keyed by message id into a Delta table: effects are exactly once, even if a lost lease is processed again.

It needs the `deltalake` package and no jar. The rows of a batch pass through the memory of the driver, as Arrow. One of
these orders takes about 100 bytes, so a million of them fit and a hundred million do not.
"""

from __future__ import annotations

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

import rmq_spark
from example_dags.spark.orders import orders


def merge(messages: DataFrame, table: str) -> None:
    """Insert the orders of these messages; an order that exists already is updated."""
    rows = orders(messages).toArrow()
    DeltaTable.create(table, rows.schema, mode="ignore")
    same = "old.message_id = new.message_id"
    merging = DeltaTable(table).merge(rows, same, source_alias="new", target_alias="old")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


def run(spark: SparkSession, url: str, table: str, run_id: str) -> int:
    """Do the work of one run of an orchestrator; return the number of messages."""
    with rmq_spark.claimed_batch(spark, url, "orders", lease_id=run_id) as batch:
        if batch:
            merge(batch.df, table)
    return len(batch)


def stream(spark: SparkSession, url: str, table: str, checkpoint: str) -> None:
    """Process the ready messages, then end; `maxMessagesPerBatch` keeps each batch within the driver's memory."""

    def write(messages: DataFrame, _: int) -> None:
        merge(messages, table)

    source = spark.readStream.format("rmq").options(url=url, queue="orders", consumer="merge")
    query = source.option("maxMessagesPerBatch", 100_000).load().writeStream.foreachBatch(write)
    rmq_spark.drain(query.option("checkpointLocation", checkpoint).start())
