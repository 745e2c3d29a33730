"""Flight delays as a stream: publish 1,095 airport-days, process the ready ones batch by batch, report, end.

    export RMQ_URL=embedded:///tmp/flights-redis RMQ_DEMO_RESULTS=/tmp/flights
    python -m example_dags.flights_stream

A micro-batch is acked when Spark has committed it, after its tables were written. The job may be killed at any point:
the next start reads the same airport-days again and overwrites their tables. Without an orchestrator, cron or a timer
can start the job: if nothing is ready, it ends at once.
"""

from __future__ import annotations

import json
import os
import tempfile
from argparse import Namespace
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import rmq_spark
from example_dags.flights import flights_csv, weather_csv, work_items, written
from example_dags.jobs import delays
from rmq_core import LeasedConfig, LeasedQueue

QUEUE = "airport-days-stream"
CONFIG = LeasedConfig(lease=timedelta(minutes=2), dedup=True)
BATCH = 400
RESULTS = Path(os.environ.get("RMQ_DEMO_RESULTS", Path(tempfile.gettempdir(), "flights"))).absolute()


class DelaysOfBatch:
    """The function that Spark calls with each micro-batch; `leases` are those that held the batches."""

    def __init__(self, results: Path) -> None:
        self.leases: set[str] = set()
        self._options = Namespace(flights=flights_csv(results), weather=weather_csv(), results=results)

    def __call__(self, messages: DataFrame, _: int) -> None:
        """Write both tables of the job `delays`."""
        delays.write(messages, self._options)
        self.leases.update(row.lease for row in messages.select("lease").distinct().collect())


def publish(queue: LeasedQueue) -> dict[str, int]:
    """Publish the work items twice; the second time, deduplication accepts none of them."""
    reports = [queue.publish_many([dict(item) for item in work_items()]) for _ in range(2)]
    return {
        "published": sum(report.accepted for report in reports),
        "deduplicated": sum(report.duplicates for report in reports),
    }


def stream(spark: SparkSession, url: str, results: Path, work: DelaysOfBatch) -> None:
    """Process the ready airport-days, then end; a restart with the same `results` resumes from the checkpoint there."""
    source = spark.readStream.format("rmq").options(url=url, queue=QUEUE, consumer="delays")
    query = source.option("maxMessagesPerBatch", BATCH).load().writeStream.foreachBatch(work)
    rmq_spark.drain(query.option("checkpointLocation", str(results / "checkpoint")).start())


def report(queue: LeasedQueue, results: Path, work: DelaysOfBatch) -> dict[str, int]:
    """Count messages and written rows; the expected result is 336,776 rows, 58,665 of them United's."""
    left, records = queue.stats(), [queue.settled(lease) for lease in work.leases]
    return {
        "batches": len(work.leases),
        "acked": sum(record.acked for record in records if record),
        "ready": left.ready,
        "leased": left.leased,
        "dead": left.dead,
        **written(results),
    }


def main() -> None:
    """Publish, run the stream to its end, and print the report."""
    url = os.environ["RMQ_URL"]
    spark = rmq_spark.session("flight-delays-stream", **delays.SPARK)
    with LeasedQueue(url, QUEUE, CONFIG) as queue:
        published, work = publish(queue), DelaysOfBatch(RESULTS)
        stream(spark, url, RESULTS, work)
        print(json.dumps(published | report(queue, RESULTS, work)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
