"""A stream into files: Spark's file sink lists each micro-batch once in its log, and the batch is acked after that."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from example_dags.spark.orders import orders


def stream(spark: SparkSession, url: str, table: str, checkpoint: str) -> StreamingQuery:
    """Work on what is ready, then end. Readers have to go through Spark, which reads the sink's log."""
    messages = spark.readStream.format("rmq").options(url=url, queue="orders", consumer="files").load()
    query = orders(messages).writeStream.format("parquet").option("checkpointLocation", checkpoint)
    return query.trigger(availableNow=True).start(table)
