"""`mode=browse`: what a queue holds, as a DataFrame; nothing is claimed and nothing changes.

A glance and no snapshot: messages that move while Spark reads may be missed or seen twice. Options: `url`, `username`,
`password`, `queue`, `discipline`; `state` (one or several of ready, leased, delayed, dead, by commas; all by default),
`limit` (messages of each state, or lease; 100,000 by default) and `pushFilters`. A `leased` queue shows all states;
others show the ready and the dead, up to 10,000 of each, for that is what every discipline lets anybody see.

With `pushFilters` comparisons of `state`, `lease`, `message_id`, `deliveries` and `queue` with constants are made where
messages are read, before they become rows. Spark refuses that unless `spark.sql.python.filterPushdown.enabled` is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rmq_core import LeasedQueue, Message, WorkQueue, open_queue
from rmq_spark.arrow import arrow_schema
from rmq_spark.options import Option, Options, flag, whole
from rmq_spark.source import PLACE, Source
from rmq_spark.traces import without_trace

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from rmq_spark.filters import Test

STATES = ("ready", "leased", "delayed", "dead")
SHOWN_BY_ALL = ("ready", "dead")
PAGE = 1000
PEEKED = 10_000
BROWSE_SCHEMA = StructType(
    [
        StructField("message_id", StringType(), nullable=False),
        StructField("payload", BinaryType(), nullable=False),
        StructField("headers", MapType(StringType(), StringType(), valueContainsNull=False), nullable=False),
        StructField("deliveries", IntegerType(), nullable=False),
        StructField("enqueued_at", TimestampType(), nullable=False),
        StructField("state", StringType(), nullable=False),
        StructField("due_at", TimestampType()),
        StructField("lease", StringType()),
        StructField("reason", StringType()),
        StructField("queue", StringType(), nullable=False),
    ]
)
"""`due_at` is of delayed messages, `lease` of leased ones; `reason` is what the last failed delivery said."""


def _states(given: str) -> tuple[str, ...]:
    chosen = tuple(word.strip().lower() for word in given.split(","))
    if not set(chosen) <= set(STATES):
        raise ValueError(given)
    return chosen


STATE: Option[Any] = Option(
    "state", f"one or several of {', '.join(STATES)}, separated by commas", _states, STATES, required=False
)
LIMIT = whole("limit").or_else(100_000)
PUSH = flag("pushFilters").or_else(False)
BROWSE: tuple[Option[Any], ...] = (*PLACE, STATE, LIMIT, PUSH)


class Seen(NamedTuple):
    """A message and where it is."""

    message: Message
    due: datetime | None = None
    lease: str | None = None


@dataclass(frozen=True)
class Corner(InputPartition):
    """One state of a queue, or for leased messages one lease."""

    state: str
    lease: str | None = None

    def __repr__(self) -> str:
        return f"Corner({self.state!r}, {self.lease!r})"


class BrowseReader(DataSourceReader):
    """Looks at each state, and at each lease, in a partition of its own."""

    def __init__(self, source: Source, states: Sequence[str], limit: int) -> None:
        self._source = source
        self._states = states
        self._limit = limit
        self._test: Test = lambda _: True

    @without_trace
    def partitions(self) -> list[InputPartition]:
        """The states, and the leases there are now."""
        source = self._source
        source.check()
        if source.discipline != "leased":
            return self._chosen(Corner(state) for state in self._states if state in SHOWN_BY_ALL)
        with LeasedQueue(source.settings, source.queue) as queue:
            leases = [info.id for info in queue.leases(PEEKED)] if "leased" in self._states else []
        return self._chosen(
            [Corner(state) for state in self._states if state != "leased"]
            + [Corner("leased", lease) for lease in leases]
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """What is there now."""
        if not isinstance(partition, Corner):  # what Spark makes of an empty plan
            return
        source = self._source
        with closing(open_queue(source.settings, source.queue, source.discipline)) as queue:
            left = self._limit
            for page in _pages(queue, partition):
                rows = [row for seen in page[:left] if self._test(row := _row(seen, partition.state, queue.name))]
                left -= len(page)
                if rows:
                    yield browsed(rows)
                if left <= 0:
                    break

    def _chosen(self, corners: Iterable[Corner]) -> list[InputPartition]:
        return [corner for corner in corners if self._test({"state": corner.state, "lease": corner.lease})]


class FilteringBrowseReader(BrowseReader):
    """The same, with the filters of the query applied as early as they can be.

    A class of its own: Spark refuses every reader that has `pushFilters` unless its setting allows that.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Take those that are comparisons with constants; give the others back for Spark to apply."""
        from rmq_spark.filters import row_test  # noqa: PLC0415  needs Spark 4.1, which is the first to push filters

        made = [(pushed, row_test(pushed)) for pushed in filters]
        tests = [test for _, test in made if test is not None]
        self._test = lambda row: all(test(row) for test in tests)
        return [pushed for pushed, test in made if test is None]


def browse_reader(options: Options) -> BrowseReader:
    """The reader that the options ask for."""
    states: tuple[str, ...] = options[STATE]
    kind = FilteringBrowseReader if options[PUSH] else BrowseReader
    return kind(Source.of(options), states, options[LIMIT])


def _pages(queue: WorkQueue, corner: Corner) -> Iterator[list[Seen]]:
    if not isinstance(queue, LeasedQueue):
        look: Callable[[int], list[Message]] = queue.peek if corner.state == "ready" else queue.dead_letters
        yield [Seen(message) for message in look(PEEKED)]
    elif corner.lease is not None:
        yield from _held(queue, corner.lease)
    else:
        yield from _free(queue, corner.state)


def _held(queue: LeasedQueue, lease: str) -> Iterator[list[Seen]]:
    info = queue.lease_info(lease)
    for lo in range(0, info.count if info else 0, PAGE):
        yield [Seen(message, lease=lease) for message in queue.browse_lease(lease, lo, lo + PAGE)]


def _free(queue: LeasedQueue, state: str) -> Iterator[list[Seen]]:
    at = 0
    while (page := queue.browse(state, at, PAGE)).messages:
        yield [Seen(message, due) for message, due in zip_longest(page.messages, page.due)]
        at += len(page.messages)


def _row(seen: Seen, state: str, queue: str) -> dict[str, Any]:
    message = seen.message
    return {
        "message_id": message.id,
        "payload": message.raw,
        "headers": list(message.headers.items()),
        "deliveries": message.deliveries,
        "enqueued_at": message.enqueued_at,
        "state": state,
        "due_at": seen.due,
        "lease": seen.lease,
        "reason": message.history[-1].reason if message.history else None,
        "queue": queue,
    }


def browsed(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Rows as one Arrow batch of exactly the schema Spark expects."""
    import pyarrow as pa  # noqa: PLC0415  300 ms that only executors should pay

    schema = arrow_schema(BROWSE_SCHEMA)
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
