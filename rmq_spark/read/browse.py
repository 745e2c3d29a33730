"""`mode=browse`: the messages of a queue as a DataFrame; nothing is claimed and nothing changes.

It is not a snapshot: messages that move while Spark reads may be missed or seen twice. Options: `url`, `username`,
`password`, `queue`, `discipline`; `state` (one or several of ready, leased, delayed, dead, by commas; all by default),
`limit` (the most messages to show of each lease, and of each other state; 100,000 by default) and `pushFilters`. A
`leased` queue shows all states; others show ready and dead messages, up to 10,000 of each, because every discipline can
list those.

With `pushFilters`, comparisons of `FILTERED` columns with constants are evaluated before messages become rows. Spark
refuses that unless `spark.sql.python.filterPushdown.enabled` is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rmq_core import LeasedQueue, Message, WorkQueue, open_queue
from rmq_spark.place.options import Option, OptionValues, flag, whole
from rmq_spark.place.source import MODE, PLACE, Source
from rmq_spark.schema import BROWSE_SCHEMA, ArrowBatch, BrowsedMessage, browsed_batch, browsed_row
from rmq_spark.traces import without_trace

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from rmq_spark.read.filters import Test

STATES = ("ready", "leased", "delayed", "dead")
SHOWN_BY_ALL = ("ready", "dead")
PAGE = 1000
PEEKED = 10_000


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
BROWSE: tuple[Option[Any], ...] = (*PLACE, MODE, STATE, LIMIT, PUSH)


@dataclass(frozen=True)
class Corner(InputPartition):
    """One state of a queue, or for leased messages one lease."""

    state: str
    lease: str | None = None


class BrowseReader(DataSourceReader):
    """Browse each state, and each lease, in a partition of its own.

    schema: `BROWSE_SCHEMA`, or the same with nullable columns, because Spark's catalog declares every column of a table
    nullable.
    """

    def __init__(self, options: OptionValues, schema: StructType = BROWSE_SCHEMA) -> None:
        self._source = Source.of(options)
        self._states: Sequence[str] = options[STATE]
        self._limit = options[LIMIT]
        self._schema = schema
        self._test: Test = lambda _: True

    @without_trace
    def partitions(self) -> list[InputPartition]:
        """Return one partition for each chosen state, and for each current lease."""
        source = self._source
        source.check()
        if source.discipline != "leased":
            corners = [Corner(state) for state in self._states if state in SHOWN_BY_ALL]
        else:
            corners = [Corner(state) for state in self._states if state != "leased"]
            with LeasedQueue(source.settings, source.queue) as queue:
                leases = queue.admin.leases(PEEKED) if "leased" in self._states else []
            corners += [Corner("leased", info.id) for info in leases]
        return [corner for corner in corners if self._test({"state": corner.state, "lease": corner.lease})]

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """Yield the messages that the partition holds now."""
        if not isinstance(partition, Corner):  # Spark's placeholder for an empty plan
            return
        source = self._source
        with closing(open_queue(source.settings, source.queue, source.discipline)) as queue:
            left = self._limit
            for page in _pages(queue, partition):
                seen = (
                    BrowsedMessage(message, partition.state, queue.name, due, partition.lease)
                    for message, due in page[:left]
                )
                left -= len(page)
                if rows := [row for row in map(browsed_row, seen) if self._test(row)]:
                    yield browsed_batch(rows, self._schema)
                if left <= 0:
                    break


class FilteringBrowseReader(BrowseReader):
    """Browse as BrowseReader does, and apply the filters of the query as early as possible.

    This is a separate class because Spark refuses every reader that has `pushFilters` unless its setting allows that.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the filters that compare with constants; return the others for Spark to apply."""
        from rmq_spark.read.filters import row_test  # needs Spark 4.1, which is the first to push filters

        made = [(pushed, row_test(pushed)) for pushed in filters]
        tests = [test for _, test in made if test is not None]
        self._test = lambda row: all(test(row) for test in tests)
        return [pushed for pushed, test in made if test is None]


def browse_reader(options: OptionValues, schema: StructType = BROWSE_SCHEMA) -> BrowseReader:
    """Return the reader that the options select."""
    return (FilteringBrowseReader if options[PUSH] else BrowseReader)(options, schema)


def _pages(queue: WorkQueue, corner: Corner) -> Iterator[list[tuple[Message, datetime | None]]]:
    """Yield the messages of a state or a lease, page by page, each with the time at which it is due."""
    if not isinstance(queue, LeasedQueue):
        look = queue.admin.peek if corner.state == "ready" else queue.admin.dead_letters
        yield [(message, None) for message in look(PEEKED)]
    elif corner.lease is not None:
        info = queue.lease_info(corner.lease)
        for lo in range(0, info.count if info else 0, PAGE):
            yield [(message, None) for message in queue.admin.browse_lease(corner.lease, lo, lo + PAGE)]
    else:
        at = 0
        while (page := queue.admin.browse(corner.state, at, PAGE)).messages:
            yield list(zip_longest(page.messages, page.due))
            at += len(page.messages)
