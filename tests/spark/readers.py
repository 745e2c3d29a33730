"""Stream readers called by hand as Spark calls them, in this process and without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit

from rmq_core import LeasedQueue
from rmq_spark.place.options import OptionValues
from rmq_spark.stream.options import STREAM
from rmq_spark.stream.reader import RmqStreamReader
from tests.spark.conftest import QUEUE

Plain = dict[str, Any]
PATIENCE_S = 300


class Run:
    """One run of a query: a reader, and its current offset."""

    def __init__(self, reader: RmqStreamReader, start: Plain | None = None) -> None:
        self.reader = reader
        self.at = start or reader.initialOffset()

    def next(self, limit: ReadLimit | None = None) -> Plain:
        """Return the end of the next batch; the start when there is no work."""
        return self.reader.latestOffset(self.at, limit or self.reader.getDefaultReadLimit())

    def read(self, end: Plain) -> list[int]:
        """Return the numbers in the payloads of the batch that ends at this offset, read slice by slice.

        Spark writes the end of a batch into its log, and commits the one before it, before it plans the batch.
        """
        if self.at["seq"] and self.at["stream"] == end["stream"]:
            self.reader.commit(self.at)
        parts = self.reader.partitions(self.at, end)
        batches = [batch for part in parts for batch in self.reader.read(part)]
        return [json.loads(payload)["n"] for batch in batches for payload in batch.column("payload").to_pylist()]

    def batch(self) -> list[int]:
        """Claim, read and commit a batch, as Spark does when nothing goes wrong."""
        end = self.next()
        numbers = self.read(end)
        self.at = end
        return numbers


@contextmanager
def run(url: str, start: Plain | None = None, **options: Any) -> Iterator[Run]:
    """A run that ends as a crash does: its leases stay."""
    given = {"url": url, "queue": QUEUE, "consumer": "c", "consumerTimeout": "300 ms", "newQueue": "true"}
    texts = {name: str(value) for name, value in {**given, "pollTimeout": "1 ms", **options}.items()}
    reader = RmqStreamReader(OptionValues(texts, STREAM))
    try:
        yield Run(reader, start)
    finally:
        reader.stop()


def publish(queue: Any, count: int, first: int = 0) -> None:
    queue.publish_many([{"n": number} for number in range(first, first + count)])


def held(queue: LeasedQueue) -> int:
    """Return how many messages are leased."""
    return queue.stats().leased


def wait_until_expired(queue: LeasedQueue) -> None:
    """Wait until the leases have expired."""
    started = time.monotonic()
    while not queue.backlog().ready:
        assert time.monotonic() - started < PATIENCE_S
        time.sleep(0.02)
