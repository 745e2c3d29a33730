"""Write each batch into a folder of its own, which a retry overwrites: effects exactly once, with any file format."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

import rmq_spark
from example_dags.spark.orders import orders


def overwrite(messages: DataFrame, table: str, batch: str) -> None:
    """Write the folder of one batch, replacing the files of earlier tries."""
    orders(messages).write.mode("overwrite").parquet(f"{table}/batch={batch}")


def run(spark: SparkSession, url: str, table: str, run_id: str) -> int:
    """Do the work of one run of an orchestrator; return the number of messages. A retry gets the same messages."""
    with rmq_spark.claimed_batch(spark, url, "orders", lease_id=run_id) as batch:
        if batch:
            overwrite(batch.df, table, run_id)
    return len(batch)


def stream(spark: SparkSession, url: str, table: str, checkpoint: str) -> None:
    """Process the ready messages, a folder for each micro-batch, then end; a restart resumes from the checkpoint."""

    def write(messages: DataFrame, number: int) -> None:
        overwrite(messages, table, str(number))

    messages = spark.readStream.format("rmq").options(url=url, queue="orders", consumer="overwrite").load()
    query = messages.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    rmq_spark.drain(query.start())
