"""A Spark job whose first attempt at a task is slow, so that another is begun beside it; both write.

`python spark_speculator.py URL FOLDER CONF`. Each attempt at the slow task leaves a file in FOLDER, and they go on
together once there are two. `CONF` is JSON for the session; the job is run once for each way of delivery.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SLOW, TASKS, ROWS = 0, 4, 4_000
DELIVERIES = {"staged": {"delivery": "staged"}, "direct": {"delivery": "direct", "dedupKey": "payload"}}
SPECULATIVE = {
    "spark.speculation": True,
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": 0.5,
    "spark.speculation.minTaskRuntime": "1s",
}


def main(url: str, folder: str, conf: str) -> None:
    """Publish the numbers below ROWS to a queue for each way of delivery."""
    import rmq_spark

    spark = rmq_spark.session("speculator", **json.loads(conf), **SPECULATIVE)
    spark.sparkContext.setLogLevel("OFF")
    rmq_spark.register(spark, ship=True)

    for name, options in DELIVERIES.items():

        def together(batches: Iterator[Any], name: str = name) -> Iterator[Any]:
            from pyspark import TaskContext

            task = TaskContext.get()
            if task.partitionId() == SLOW:
                Path(folder, f"{name}-{task.attemptNumber()}").touch()
                while len(list(Path(folder).glob(f"{name}-*"))) < 2:
                    time.sleep(0.02)
            yield from batches

        numbers = spark.range(ROWS, numPartitions=TASKS).selectExpr("cast(id as string) payload")
        frame = numbers.mapInArrow(together, numbers.schema)
        frame.write.format("rmq").mode("append").options(url=url, queue=name, **options).save()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
