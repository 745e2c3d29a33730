"""A driver that streams a queue into SQLite: `python tests/faults/stream_driver.py <url> <folder> <messages a batch>`.

The table has one row for each message, keyed by its id. A query that fails is started again on the same checkpoint, as
a supervisor would do it; `runs` in the same database has a row for each start, with the error that ended it.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

import rmq_spark

TABLES = """
CREATE TABLE IF NOT EXISTS sink (id TEXT PRIMARY KEY, n INTEGER, batch INTEGER, times INTEGER);
CREATE TABLE IF NOT EXISTS runs (number INTEGER PRIMARY KEY, error TEXT);
"""
UPSERT = """
INSERT INTO sink VALUES (?, ?, ?, 1) ON CONFLICT (id) DO UPDATE SET batch = excluded.batch, times = times + 1
"""


def main(url: str, folder: str, most: str) -> None:
    """Stream into SQLite until the process is killed."""
    database = database_of(folder)

    def write(frame: DataFrame, batch: int) -> None:
        rows = frame.select("message_id", "payload").collect()
        with closing(sqlite3.connect(database, timeout=60)) as sink, sink:
            sink.executemany(UPSERT, [(row.message_id, json.loads(bytes(row.payload))["n"], batch) for row in rows])

    stream(url, folder, most, write)


def database_of(folder: str) -> str:
    """Return the path of the database."""
    return str(Path(folder) / "sink.sqlite")


def stream(url: str, folder: str, most: str, write: Callable[[DataFrame, int], None]) -> None:
    """Create the tables, then pass each micro-batch to `write` until the process is killed."""
    database = database_of(folder)
    with closing(sqlite3.connect(database)) as sink:
        sink.execute("PRAGMA journal_mode = WAL")
        sink.executescript(TABLES)
    # A task may fail three times: a killed worker fails its task, not the query.
    session = rmq_spark.session(
        "stream",
        **{"spark.master": "local[2,4]", "spark.ui.enabled": False, "spark.sql.shuffle.partitions": 2},
        **{"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
    )
    session.sparkContext.setLogLevel("FATAL")
    options = {"url": url, "queue": "q", "consumer": "c", "numPartitions": 2, "newQueue": True, "maxDeliveries": 1000}
    frame = session.readStream.format("rmq").options(**options).option("maxMessagesPerBatch", most).load()
    while True:
        with closing(sqlite3.connect(database, timeout=60)) as sink, sink:
            number = sink.execute("INSERT INTO runs DEFAULT VALUES").lastrowid
        query = frame.writeStream.foreachBatch(write).option("checkpointLocation", f"{folder}/checkpoint").start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            with closing(sqlite3.connect(database, timeout=60)) as sink, sink:
                sink.execute("UPDATE runs SET error = ? WHERE number = ?", (str(error), number))


if __name__ == "__main__":
    main(*sys.argv[1:])
