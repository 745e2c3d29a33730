"""The tables of a declarative pipeline: orders from a queue, and their totals by customer.

    export RMQ_URL=redis://localhost:6379/0
    spark-pipelines dry-run
    spark-pipelines run

A dry run checks the tables and claims nothing. A run takes what is ready at its start and acks it.
"""

from __future__ import annotations

import os

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


@pipelines.table
def orders() -> DataFrame:
    """A row for each message of the queue `orders`."""
    source = SparkSession.active().readStream.format("rmq")
    messages = source.options(url=os.environ["RMQ_URL"], queue="orders", consumer="pipeline").load()
    order = F.from_json(F.col("payload").cast("string"), "customer STRING, amount DOUBLE")
    return messages.select("message_id", order.alias("order")).select("message_id", "order.*")


@pipelines.materialized_view
def totals() -> DataFrame:
    """The sum of the amounts, by customer."""
    table = SparkSession.active().read.table("orders")
    return table.groupBy("customer").agg(F.sum("amount").alias("total"))
