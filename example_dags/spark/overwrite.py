"""A batch into a folder of its own, which a retry overwrites: effects exactly once, with any file format."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import rmq_spark
from example_dags.spark.orders import orders


def overwrite(messages: DataFrame, table: str, batch: str) -> None:
    """Write the folder of one batch, whatever an earlier try left in it."""
    orders(messages).write.mode("overwrite").parquet(f"{table}/batch={batch}")


def run(spark: SparkSession, url: str, table: str, run_id: str) -> int:
    """The work of one run of an orchestrator; how many messages that was. A retry of the run gets the same ones."""
    with rmq_spark.claimed_batch(spark, url, "orders", lease_id=run_id) as batch:
        if batch.count:
            overwrite(batch.df, table, run_id)
    return batch.count


def stream(spark: SparkSession, url: str, table: str, checkpoint: str) -> StreamingQuery:
    """Work on what is ready, a folder for each micro-batch; a restart on its checkpoint goes on where it ended."""

    def write(messages: DataFrame, number: int) -> None:
        overwrite(messages, table, str(number))

    messages = spark.readStream.format("rmq").options(url=url, queue="orders", consumer="overwrite").load()
    query = messages.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    return query.trigger(availableNow=True).start()
