"""What each customer ordered, for the orders of one batch, in a folder of its own: a retry overwrites it."""

from __future__ import annotations

import sys
from urllib.parse import quote

from pyspark.sql import functions as F  # noqa: N812  Spark's own spelling

import rmq_spark

spark = rmq_spark.session("totals")
with rmq_spark.adopted_batch(spark) as batch:  # what the operator claimed, as a DataFrame; kept while the block runs
    orders, corrupt = rmq_spark.split_json(batch.df, "customer STRING NOT NULL, amount DOUBLE")
    batch.nack(corrupt, reason=F.col("reason"))  # these come back; the others are acked when the block ends
    totals = orders.groupBy("value.customer").agg(F.sum("value.amount").alias("total"))
    totals.write.mode("overwrite").parquet(f"{sys.argv[1]}/batch={quote(batch.name, safe='')}")
spark.stop()
