"""Append to a Delta table, each batch once by the table's own log: the rows have no key, and nothing is merged.

It needs the `deltalake` package and no jar. A try that committed and died is acked by the next one without computing.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import rmq_spark
from example_dags.spark.orders import orders
from rmq_spark.tables import append_once, appender

SCHEMA = pa.schema([("message_id", pa.string()), ("number", pa.int32()), ("amount", pa.float64())])


def run(spark: SparkSession, url: str, table: str, run_id: str) -> int:
    """Do the work of one run of an orchestrator; return the number of messages. A retry gets the same messages."""
    DeltaTable.create(table, SCHEMA, mode="ignore")
    with rmq_spark.claimed_batch(spark, url, "orders", lease_id=run_id) as batch:
        append_once(batch, table, orders)
    return len(batch)


def stream(spark: SparkSession, url: str, table: str, checkpoint: str) -> None:
    """Process the ready messages, then end; `maxMessagesPerBatch` keeps each batch within the driver's memory."""
    DeltaTable.create(table, SCHEMA, mode="ignore")
    source = spark.readStream.format("rmq").options(url=url, queue="orders", consumer="append")
    query = source.option("maxMessagesPerBatch", 100_000).load().writeStream.foreachBatch(appender(table, orders))
    rmq_spark.drain(query.option("checkpointLocation", checkpoint).start())
