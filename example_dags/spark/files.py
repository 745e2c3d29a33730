"""A stream into files: Spark's file sink logs each micro-batch once, and the batch is acked after that."""

from __future__ import annotations

from pyspark.sql import SparkSession

import rmq_spark
from example_dags.spark.orders import orders


def stream(spark: SparkSession, url: str, table: str, checkpoint: str) -> None:
    """Process the ready messages, then end. Read the files with Spark only, because it uses the sink's log."""
    messages = spark.readStream.format("rmq").options(url=url, queue="orders", consumer="files").load()
    query = orders(messages).writeStream.format("parquet").option("checkpointLocation", checkpoint)
    rmq_spark.drain(query.start(table))
