"""Flights in a Delta table: publish 1,095 airport-days, append the departures of each batch once, report, end.

    export RMQ_URL=embedded:///tmp/flights-redis RMQ_DEMO_RESULTS=/tmp/flights
    python -m example_dags.flights_delta

The rows have no key and nothing is merged: each batch is appended together with its name, in one commit of the table's
log. The job may be killed at any point, also between the commit and the ack: the next start finds the name of a batch
that was committed, and acks it without computing it again.
"""

from __future__ import annotations

import json
import os
import tempfile
from argparse import Namespace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

import rmq_spark
from example_dags.flights import flights_csv, weather_csv
from example_dags.flights_stream import CONFIG, publish
from example_dags.jobs import delays
from rmq_core import LeasedQueue
from rmq_spark.tables import appender

QUEUE = "airport-days-delta"
BATCH = 400  # about 120,000 rows, which pass through the driver's memory
RESULTS = Path(os.environ.get("RMQ_DEMO_RESULTS", Path(tempfile.gettempdir(), "flights"))).absolute()
SCHEMA = pa.schema(
    [
        ("origin", pa.string()),
        ("day", pa.date32()),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("dep_delay", pa.float64()),
        ("weather", pa.string()),
    ]
)


def departures(options: Namespace, messages: DataFrame) -> DataFrame:
    """Return a row for each departure of the airport-days that the messages name."""
    return delays.departures(delays.airport_days(messages), options).select(*SCHEMA.names)


def stream(spark: SparkSession, url: str, results: Path) -> None:
    """Append the departures of the ready airport-days, then end; a restart resumes from the checkpoint in `results`."""
    table = results / "departures_delta"
    DeltaTable.create(table, SCHEMA, mode="ignore")
    rows = partial(departures, Namespace(flights=flights_csv(results), weather=weather_csv()))
    source = spark.readStream.format("rmq").options(url=url, queue=QUEUE, consumer="delta")
    query = source.option("maxMessagesPerBatch", BATCH).load().writeStream.foreachBatch(appender(table, rows))
    rmq_spark.drain(query.option("checkpointLocation", str(results / "checkpoint_delta")).start())


def report(queue: LeasedQueue, results: Path) -> dict[str, int]:
    """Count messages and appended rows; the expected result is 336,776 rows, 58,665 of them United's."""
    rows, left = DeltaTable(results / "departures_delta").to_pyarrow_table(), queue.stats()
    united = rows.filter(pc.field("carrier") == "UA").num_rows
    counts = {"ready": left.ready, "leased": left.leased, "dead": left.dead}
    return counts | {"rows": rows.num_rows, "united_rows": united}


def main() -> None:
    """Publish, run the stream to its end, and print the report."""
    url = os.environ["RMQ_URL"]
    spark = rmq_spark.session("flights-delta", **delays.SPARK)
    with LeasedQueue(url, QUEUE, CONFIG) as queue:
        published = publish(queue)
        stream(spark, url, RESULTS)
        print(json.dumps(published | report(queue, RESULTS)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
