"""A driver that adopts its lease, writes that to MARKER, and works until it is stopped."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

import rmq_spark


def slowly(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for part in parts:
        time.sleep(120)
        yield part


spark = rmq_spark.session("driver", **{"spark.ui.enabled": False})
with rmq_spark.adopted_batch(spark) as batch:
    ids = [row.message_id for row in batch.df.collect()]
    marker = Path(os.environ["MARKER"])
    marker.with_suffix(".new").write_text(json.dumps({"pid": os.getpid(), "java": os.getppid(), "ids": ids}))
    marker.with_suffix(".new").rename(marker)
    batch.df.mapInPandas(slowly, batch.df.schema).count()
