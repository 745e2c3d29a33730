"""From queue to queue: each publish is named after its claim or micro-batch, and no name is published twice."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

import rmq_spark
from rmq_spark import ClaimedBatch

LARGE = "cast(get_json_object(cast(payload as string), '$.amount') as double) >= 50"


def large(messages: DataFrame) -> DataFrame:
    """Select the messages to forward; id, payload and headers stay; the publisher is this job."""
    return messages.where(LARGE).select("message_id", "payload", "headers")


def publish(batch: ClaimedBatch, url: str, queue: str) -> None:
    """Publish in one step when all tasks have succeeded; publish nothing if an earlier try of the same claim did."""
    place = {"url": url, "queue": queue, "sinkId": batch.name}
    large(batch.df).write.format("rmq").options(**place).mode("append").save()


def run(spark: SparkSession, url: str, queue: str, run_id: str) -> int:
    """Do the work of one run of an orchestrator; return the number of messages."""
    with rmq_spark.claimed_batch(spark, url, "orders", lease_id=run_id) as batch:
        if batch:
            publish(batch, url, queue)
    return len(batch)


def stream(spark: SparkSession, url: str, queue: str, checkpoint: str) -> None:
    """Process the ready messages, then end; each micro-batch is published exactly once, even after a crash."""
    messages = spark.readStream.format("rmq").options(url=url, queue="orders", consumer="forward").load()
    query = large(messages).writeStream.format("rmq").options(url=url, queue=queue)
    rmq_spark.drain(query.option("checkpointLocation", checkpoint).start())
