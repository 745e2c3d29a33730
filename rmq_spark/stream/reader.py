"""`readStream.format("rmq")`: a lease for each micro-batch, acked when Spark has committed the batch.

Spark calls `latestOffset(start)` when everything up to `start` is in its commit log: that is where batches are acked,
and where the next one is claimed. `commit` says the same later, with the next batch. All hooks but `read` run in one
process beside the driver, whose threads keep lease and consumer alive; with that process they end, and a restart of the
query takes both over.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from rmq_core import ConfigurationError, Lease, LeasedQueue, LeaseLost, Message
from rmq_spark.place.options import ASYNC_REFUSED, OptionValues
from rmq_spark.place.source import DELIVERIES, PARTITIONS, Source, SourceQueue
from rmq_spark.read.lease import info_of, plan, read_slice
from rmq_spark.schema import ArrowBatch
from rmq_spark.stream import options as given
from rmq_spark.stream.ledger import Ledger, ReplayedBatch
from rmq_spark.stream.offsets import Offset
from rmq_spark.traces import without_trace

log = logging.getLogger(__name__)

SETTLED_TTL_S = 3600.0  # a batch a second must not fill Redis with records; the consumer's record remembers for longer
PEEKED = 50  # of queues that cannot bound the bytes of an answer
BROWSED = 1000


class RmqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The messages of a queue as a stream. Pickled for `read`, it takes only what that needs."""

    def __init__(self, options: OptionValues) -> None:
        self._source = Source.of(options)
        self._options = options
        self._ledger: Ledger | None = None
        self._budget: float = math.inf
        self._patient = True
        self._planned = self._committed = 0
        self._fresh = Offset(self._source.queue, options[given.CONSUMER])

    def __getstate__(self) -> dict[str, Any]:
        return {"_source": self._source}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's name
        """The beginning of a stream of its own; the same one each time."""
        return self._fresh.plain

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """What the options say; bytes, where they do, for Spark takes only one limit."""
        most_bytes = self._options[given.MOST_BYTES]
        return ReadMaxRows(self._options[given.MOST_MESSAGES]) if most_bytes is None else ReadMaxBytes(most_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """From now on, claim no more messages than are ready at this moment, and do not wait for others."""
        self._budget, self._patient = self._queue.backlog().ready, False

    @without_trace
    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  Spark's name
        """Ack everything up to `start`, which Spark has committed, and claim the next batch if there is work."""
        begin = self._offset(start)
        ledger = self._ledger_of(begin)
        ledger.finish(begin.seq)
        seq, most = self._next(ledger, begin), self._most(limit)
        if not most and not ledger.exists(seq):
            return begin.plain
        lease = ledger.claim(seq, max(1, most), self._options[given.POLL] if self._patient else 0)
        if lease is None:
            return begin.plain
        self._budget -= 0 if lease.takeovers else lease.count
        return begin.at(seq).plain

    @without_trace
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """The slices of one batch. Raises ReplayedBatch or LeaseLost where the options say so, else it is empty."""
        begin, until = self._offset(start), self._offset(end)
        ledger = self._ledger_of(until)
        if begin.stream == until.stream:
            ledger.finish(begin.seq)  # a batch is planned when the one before it is committed
        if begin == until or not until.seq:
            return []
        self._check_log(begin.seq)
        self._planned = until.seq
        lease = self._found(ledger, until.seq)
        if lease is None:
            return []
        return list(plan(self._queue, lease, info_of(self._queue, lease.id), self._options[PARTITIONS]))

    @without_trace
    def commit(self, end: Mapping[str, Any]) -> None:
        """A second chance to ack; `latestOffset` was told before."""
        until = self._offset(end)
        self._ledger_of(until).finish(until.seq)
        self._committed = until.seq

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """The messages of one slice, on an executor. Raises LeaseLost when part of it is gone."""
        return read_slice(self._source.settings, self._source.discipline, partition)

    def stop(self) -> None:
        """End the heartbeats, and leave the leases to a restart. Spark mostly ends the process instead."""
        if self._ledger is not None:
            self._ledger.close()
            self._queue.close()

    @cached_property
    def _queue(self) -> SourceQueue:
        options, deliveries = self._options, "max_deliveries" if self._source.discipline == "leased" else "max_attempts"
        config = {"lease": options[given.LEASE], "settled_ttl": SETTLED_TTL_S, deliveries: options[DELIVERIES]}
        queue = self._source.open(**config)
        if not options[given.NEW_QUEUE]:
            self._source.check()
        return queue

    def _offset(self, plain: Mapping[str, Any]) -> Offset:
        return Offset.read(plain, self._source.queue, self._options[given.CONSUMER])

    def _ledger_of(self, offset: Offset) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger(self._source, self._queue, offset, self._options[given.CONSUMER_TIMEOUT])
        return self._ledger

    def _next(self, ledger: Ledger, begin: Offset) -> int:
        """The number of the next batch, which follows `begin` unless the checkpoint is older than what was acked."""
        if begin.seq < ledger.finished and not self._options[given.FAIL_ON_LOSS]:
            log.warning("batches %d to %d of %r were acked before", begin.seq + 1, ledger.finished, begin.consumer)
            return ledger.finished + 1
        return begin.seq + 1

    def _check_log(self, begin: int) -> None:
        """Refuse a query that runs ahead of its log. Else Spark commits the batch before it plans the next one."""
        if begin and begin == self._planned and self._committed < begin:
            raise ConfigurationError(ASYNC_REFUSED)

    def _most(self, limit: ReadLimit) -> int:
        """How many messages the next batch may have."""
        most = self._budget
        if not isinstance(limit, ReadAllAvailable):
            most = min(most, self._options[given.MOST_MESSAGES])
        if isinstance(limit, ReadMaxRows):
            most = min(most, limit.max_rows)
        most_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options[given.MOST_BYTES]
        if most_bytes is not None and most >= 1:
            most = min(most, how_many(self._queue, most_bytes))
        return int(most) if most < math.inf else max(1, self._queue.backlog().ready)

    def _found(self, ledger: Ledger, seq: int) -> Lease | None:
        """The lease of a batch; None when it is gone and that is no failure."""
        try:
            return ledger.lease(seq)
        except ReplayedBatch as error:
            if self._options[given.FAIL_ON_LOSS]:
                raise
            log.warning("%s", error)
        except LeaseLost as error:  # others have the messages: they are not lost, and must not be read here
            if self._options[given.FAIL_ON_LEASE_LOSS]:
                raise
            log.warning("a batch is empty: %s", error)
        return None


def how_many(queue: SourceQueue, most_bytes: int) -> int:
    """How many ready messages have at most so many bytes together: at least one.

    Exact when fewer than a thousand do; for more, the rest is taken to be as large as these.
    """
    count = total = 0
    for message in _oldest(queue):
        size = size_of(message)
        if total + size > most_bytes:
            return max(1, count)
        count, total = count + 1, total + size
    return max(1, most_bytes * count // max(1, total))


def _oldest(queue: SourceQueue) -> Iterator[Message]:
    """The oldest ready messages, read page by page, as far as they are asked for: a page of large ones is cut."""
    if not isinstance(queue, LeasedQueue):
        yield from queue.peek(PEEKED)
        return
    seen = 0
    while seen < BROWSED and (page := queue.browse("ready", seen, BROWSED - seen).messages):
        yield from page
        seen += len(page)


def size_of(message: Message) -> int:
    """The bytes of payload and headers."""
    return len(message.raw) + sum(len(name) + len(value) for name, value in message.headers.items())
