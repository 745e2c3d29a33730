"""A job whose driver and executors have nothing but a packed environment: `archived_driver.py URL`.

It prints, as JSON, where an executor found RMQ, and how many messages a batch, a stream and a sink had.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import rmq_core
import rmq_spark
from rmq_core import LeasedQueue

COUNT = 50


def main(url: str) -> None:
    """Read `work` by a batch, which publishes to `more`, and `more` by a stream."""
    spark = rmq_spark.session("archived")
    spark.sparkContext.setLogLevel("OFF")
    found: dict[str, Any] = {"driver": rmq_core.__file__}
    found["executor"] = spark.sparkContext.parallelize([0], 1).map(lambda _: rmq_core.__file__).first()
    with LeasedQueue(url, "work") as queue:
        queue.publish_many(map(str, range(COUNT)))
    with rmq_spark.claimed_batch(spark, url, "work", lease_id="run") as batch:
        found["batch"] = batch.df.count()
        batch.df.select("payload").write.format("rmq").options(url=url, queue="more").mode("append").save()
    rows: list[Any] = []
    stream = spark.readStream.format("rmq").options(url=url, queue="more", consumer="archived").load()
    query = stream.writeStream.foreachBatch(lambda messages, _: rows.extend(messages.collect()))
    rmq_spark.drain(query.start())
    found["stream"] = len(rows)
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
