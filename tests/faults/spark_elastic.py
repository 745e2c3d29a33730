"""A Spark job whose executors come and go: one is killed in a task, all are given back between two actions.

`python spark_elastic.py URL FOLDER CONF`. `CONF` is JSON for the session. A batch and a stream are read from the queue
`work`; the numbers that each action read go to a file in FOLDER.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COUNT = 2_000
ELASTIC = {
    "spark.dynamicAllocation.enabled": True,
    "spark.dynamicAllocation.minExecutors": 0,
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "2s",
}
PATIENCE_S = 300


def main(url: str, folder: str, conf: str) -> None:
    """Process a batch and a stream of COUNT messages each."""
    import rmq_spark
    from rmq_core import LeasedQueue

    spark = rmq_spark.session("elastic", **json.loads(conf), **ELASTIC)
    spark.sparkContext.setLogLevel("OFF")
    rmq_spark.register(spark, ship=True)

    def read(messages: Any, name: str) -> None:
        """Write what the executors read; the first attempt at a task kills the executor that runs it."""

        def killing(batches: Iterator[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            first = next(batches)  # the task has begun to read from Redis
            if TaskContext.get().partitionId() == 0 and not Path(folder, f"{name}-killed").exists():
                Path(folder, f"{name}-killed").touch()
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
                os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)
                time.sleep(PATIENCE_S)
            yield first
            yield from batches

        payloads = messages.selectExpr("cast(payload as string) payload", "deliveries")
        rows = payloads.mapInArrow(killing, payloads.schema).collect()
        Path(folder, name).write_text(json.dumps([[row.payload, row.deliveries] for row in rows]))

    with LeasedQueue(url, "work") as queue:
        queue.publish_many(map(str, range(COUNT)))
        with rmq_spark.claimed_batch(spark, url, "work", lease_id="run") as batch:
            read(batch.df.cache(), "batch")
            _await_no_executors(spark)
            read(batch.df, "batch-again")
        queue.publish_many(map(str, range(COUNT)))
        source = spark.readStream.format("rmq").options(url=url, queue="work", consumer="elastic").load()
        query = source.writeStream.foreachBatch(lambda messages, number: read(messages, f"stream-{number}"))
        rmq_spark.drain(query.option("checkpointLocation", f"{folder}/checkpoint").start())
    spark.stop()


def _await_no_executors(spark: Any) -> None:
    """Return when only the driver is left, which Spark counts too."""
    deadline = time.monotonic() + PATIENCE_S
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() > 1:
        assert time.monotonic() < deadline, "the executors stay"
        time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
