"""A Connect client that works on a claimed batch until it is stopped; it prints what ended its work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pandas as pd
from pyspark import cloudpickle

import rmq_spark
from rmq_core import LeaseLost

URL, MARKER = sys.argv[1:]


def slowly(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    with open(MARKER, "w"):  # noqa: PTH123  pickled without its imports
        time.sleep(600)
    yield from parts


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
spark = rmq_spark.session("connected")
rmq_spark.register(spark, ship=True)
try:
    with rmq_spark.claimed_batch(spark, URL, "work", lease_id="run") as batch:
        batch.df.mapInPandas(slowly, batch.df.schema).count()
except LeaseLost:
    print("LeaseLost", len(spark.getTags()), flush=True)
spark.stop()
