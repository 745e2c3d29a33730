"""A small Spark job: it adds up the numbers of its batch and writes the sum to the given file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import functions as F

import rmq_spark

spark = rmq_spark.session("numbers", **{"spark.ui.enabled": False})
with rmq_spark.adopted_batch(spark) as batch:
    numbers = batch.df.select(F.get_json_object(F.col("payload").cast("string"), "$.n").cast("long").alias("n"))
    row = numbers.agg(F.sum("n")).first()
    assert row is not None
    Path(sys.argv[1]).write_text(json.dumps(row[0]))
spark.stop()
