"""From queue to queue: what is published under a name, a claim's or a micro-batch's, is not published again."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import rmq_spark
from rmq_spark import ClaimedBatch

LARGE = "cast(get_json_object(cast(payload as string), '$.amount') as double) >= 50"


def large(messages: DataFrame) -> DataFrame:
    """The messages to pass on: id, payload and headers stay as they are."""
    return messages.where(LARGE).select("message_id", "payload", "headers")


def publish(batch: ClaimedBatch, url: str, queue: str) -> None:
    """Publish in one step when all tasks have succeeded; nothing when a try before this one did, of the same claim."""
    place = {"url": url, "queue": queue, "sinkId": batch.name}
    large(batch.df).write.format("rmq").options(**place).mode("append").save()


def run(spark: SparkSession, url: str, queue: str, run_id: str) -> int:
    """The work of one run of an orchestrator; how many messages that was."""
    with rmq_spark.claimed_batch(spark, url, "orders", lease_id=run_id) as batch:
        if batch.count:
            publish(batch, url, queue)
    return batch.count


def stream(spark: SparkSession, url: str, queue: str, checkpoint: str) -> StreamingQuery:
    """Work on what is ready, then end; each micro-batch is published once, whatever crashes."""
    messages = spark.readStream.format("rmq").options(url=url, queue="orders", consumer="forward").load()
    query = large(messages).writeStream.format("rmq").options(url=url, queue=queue)
    return query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
