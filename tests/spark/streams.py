"""Streaming queries for tests: a queue as source, a list of the test as sink."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from rmq_spark import drain
from rmq_spark.versions import HAS_LIMITS
from tests.spark.conftest import QUEUE, wait_for

PATIENCE_S = 180
Handler = Callable[[DataFrame, int], Any]


class Batches:
    """The batches of a query: the numbers in the payloads of each, in the order in which they came."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[int]]] = []
        self.rows: list[Row] = []

    def __call__(self, frame: DataFrame, number: int) -> None:
        rows = frame.collect()
        self.rows += rows
        self.seen.append((number, sorted(json.loads(bytes(row.payload))["n"] for row in rows)))

    @property
    def numbers(self) -> list[int]:
        return sorted(number for _, numbers in self.seen for number in numbers)

    @property
    def sizes(self) -> list[int]:
        return [len(numbers) for _, numbers in self.seen]


class Stream:
    """A query that can be run again on the same checkpoint."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, **options: Any) -> None:
        self.spark, self.checkpoint = spark, folder / "checkpoint"
        given = {"url": url, "queue": QUEUE, "consumer": "c", "numPartitions": 2, "consumerTimeout": "1 second"}
        self.options = {**given, "pollTimeout": "100 ms", "newQueue": True, **options}

    def start(self, handler: Handler, **trigger: Any) -> StreamingQuery:
        frame = self.spark.readStream.format("rmq").options(**self.options).load()
        writer = frame.writeStream.foreachBatch(handler).option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def drain(self, handler: Handler) -> None:
        """Run until everything that was ready at the start is done; raise what ended the query."""
        if not HAS_LIMITS:  # there, availableNow processes one batch
            drain(self.start(handler))
            return
        query = self.start(handler, availableNow=True)
        try:
            assert query.awaitTermination(PATIENCE_S)
        finally:
            query.stop()

    @contextmanager
    def running(self, handler: Handler, **trigger: Any) -> Iterator[StreamingQuery]:
        """Run the query during the block; raise what ended it."""
        query = self.start(handler, **trigger)
        try:
            with raising_failure(query):
                yield query
        finally:
            query.stop()

    def log(self, name: str, batch: int) -> Path:
        """Return the path of a file of the checkpoint; Spark keeps a checksum beside it."""
        return self.checkpoint / name / str(batch)

    def forget(self, name: str, batch: int) -> None:
        """Delete an entry of a log of the checkpoint."""
        self.log(name, batch).unlink()
        self.log(name, batch).with_name(f".{batch}.crc").unlink(missing_ok=True)


@contextmanager
def raising_failure(query: StreamingQuery) -> Iterator[None]:
    """Raise what ended the query, also where the block itself fails because of that."""
    try:
        yield
    finally:
        if (failure := query.exception()) is not None:
            raise failure


def until(condition: Callable[[], Any], query: StreamingQuery) -> None:
    """Wait for a condition; raise the error of a query that has ended."""

    def holds() -> Any:
        if not query.isActive:
            failure = query.exception()
            raise failure or AssertionError("the query has ended")
        return condition()

    wait_for(holds, PATIENCE_S)
