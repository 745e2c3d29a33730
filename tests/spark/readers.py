"""Stream readers called by hand as Spark calls them, in this process and without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rmq_core import LeasedQueue
from rmq_spark.place.options import OptionValues
from rmq_spark.stream.options import STREAM
from rmq_spark.stream.spark_4_0 import Spark40StreamReader
from rmq_spark.versions import HAS_LIMITS
from tests.spark.conftest import QUEUE

Plain = dict[str, Any]
PATIENCE_S = 300
VERSIONS = ("4.0", "4.2") if HAS_LIMITS else ("4.0",)
"""The versions of Spark that changed the hooks, as far as the installed one has them."""


class Run:
    """One run of a query: a reader, and its current offset."""

    def __init__(self, reader: Any, start: Plain | None = None) -> None:
        self.reader = reader
        self.at = start or reader.initialOffset()

    def next(self, limit: Any = None) -> Plain:
        """Return the end of the next batch; the start when there is no work."""
        found: Plain = self.reader.latestOffset(self.at, limit or self.reader.getDefaultReadLimit())
        return found

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


class Spark40Run(Run):
    """One run of a query under Spark 4.0 or 4.1, which names the end of its log first when there is a checkpoint."""

    def __init__(self, reader: Spark40StreamReader, start: Plain | None = None) -> None:
        super().__init__(reader, start)
        if start is not None:
            reader.partitions(start, start)

    def next(self, limit: Any = None) -> Plain:
        """Return the end of the next batch. A query without work asks again."""
        end = self.reader.latestOffset()
        return self.reader.latestOffset() if end == self.at else end


@contextmanager
def run(url: str, start: Plain | None = None, version: str | None = None, **options: Any) -> Iterator[Run]:
    """A run that ends as a crash does: its leases stay. version: of Spark, by default that of `spark_version`."""
    given = {"url": url, "queue": QUEUE, "consumer": "c", "consumerTimeout": "300 ms", "newQueue": "true"}
    texts = {name: str(value) for name, value in {**given, "pollTimeout": "1 ms", **options}.items()}
    kind, made = _of_version(version or _chosen[-1])
    reader = kind(OptionValues(texts, STREAM))
    try:
        yield made(reader, start)
    finally:
        reader.stop()


_chosen = [VERSIONS[-1]]


@contextmanager
def spark_version(version: str) -> Iterator[None]:
    """Let `run` call readers as this version of Spark does."""
    _chosen.append(version)
    yield
    _chosen.pop()


def _of_version(version: str) -> tuple[Any, type[Run]]:
    if version == "4.0":
        return Spark40StreamReader, Spark40Run
    from rmq_spark.stream.spark_4_2 import Spark42StreamReader

    return Spark42StreamReader, Run


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
