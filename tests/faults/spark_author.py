"""A Spark job that publishes: `python spark_author.py <url> <rows>`. It prints `ready` when it begins to write.

All its rows go to the queue `q` under one sink id, so that it can be run again whatever its outcome was.
"""

from __future__ import annotations

import sys

from pyspark.sql.functions import col

import rmq_spark

SETTINGS = {"spark.master": "local[2]", "spark.ui.enabled": False}


def main(url: str, rows: str) -> None:
    """Publish the numbers below `rows`."""
    spark = rmq_spark.session("author", **SETTINGS)
    frame = spark.range(int(rows), numPartitions=4).select(col("id").cast("string").alias("payload"))
    frame.count()
    print("ready", flush=True)
    options = {"url": url, "queue": "q", "sinkId": "job"}
    frame.write.format("rmq").mode("append").options(**options).save()


if __name__ == "__main__":
    main(*sys.argv[1:])
