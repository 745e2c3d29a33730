"""Add up the orders of one batch by customer, into a folder of the batch's own, which a retry overwrites."""

from __future__ import annotations

import sys
from urllib.parse import quote

from pyspark.sql import functions as F

import rmq_spark

spark = rmq_spark.session("totals")
with rmq_spark.adopted_batch(spark) as batch:  # the operator's lease; the block extends it
    orders, corrupt = rmq_spark.split_json(batch.df, "customer STRING NOT NULL, amount DOUBLE")
    batch.nack(corrupt, reason=F.col("reason"))  # these are redelivered; the others are acked at the end
    totals = orders.groupBy("value.customer").agg(F.sum("value.amount").alias("total"))
    totals.write.mode("overwrite").parquet(f"{sys.argv[1]}/batch={quote(batch.name, safe='')}")
spark.stop()
