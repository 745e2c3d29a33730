"""A Spark driver that processes a batch for each line of its input and prints the outcome.

`python -m tests.faults.spark_driver URL FOLDER MASTER`. A task leaves a file `pid-<its process>` in FOLDER, processes
its messages once FOLDER/go exists, and writes a line for each to its own file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rmq_spark
from rmq_spark.batch import watch

QUEUE = "work"
LEASE_S = 30
TWO_EXECUTORS = "local-cluster[2,1,512]"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def work(folder: Path, rows: Iterator[Any]) -> None:
    """The work of a task, which begins slowly."""
    found = [row.message_id for row in rows]
    (folder / f"pid-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    (folder / f"did-{time.time_ns()}-{os.getpid()}").write_text("".join(f"{message_id}\n" for message_id in found))


def one_batch(spark: Any, url: str, folder: Path, lease_id: str) -> str:
    """Return the outcome of a batch."""
    try:
        with rmq_spark.claimed_batch(spark, url, QUEUE, lease_id=lease_id, lease=LEASE_S) as batch:
            try:
                batch.df.foreachPartition(lambda rows: work(folder, rows))
            except Exception:
                print("stopped", time.time(), flush=True)
                raise
    except Exception as error:  # reported to the test
        return type(error).__name__
    return f"acked {len(batch)}"


def main(url: str, folder: Path, master: str) -> None:
    """Communicate over the pipes."""
    watch.MARGIN, watch.MOST_MARGIN_S = 0.5, LEASE_S  # a slow machine needs time to stop its jobs
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    lean = {f"spark.{role}.extraJavaOptions": SHORT_LIVED for role in ("driver", "executor")}
    patient = {"spark.ui.enabled": False, "spark.task.maxFailures": 50, "spark.executor.memory": "512m"}
    spark = rmq_spark.session("faults", **{"spark.master": master, **lean, **patient})
    spark.sparkContext.setLogLevel("OFF")
    print("ready", flush=True)
    for line in sys.stdin:
        print(one_batch(spark, url, folder, line.strip()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
