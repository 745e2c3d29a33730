"""`readStream.format("rmq")`: a lease for each micro-batch, acked when Spark has committed the batch.

Here is what all versions of Spark share. `spark_4_2.py` has the hooks of Spark 4.2 and later, which pass the start of a
batch and a limit; `spark_4_0.py` has those of Spark 4.0 and 4.1, which pass neither. All methods but `read` run in one
Python process beside the driver. Its threads send heartbeats for the lease and consumer; after it dies, a restarted
query takes both over.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rmq_core import ConfigurationError, Lease, LeasedQueue, LeaseLost, Message
from rmq_core.reports import Backlog
from rmq_spark.place.options import ASYNC_REFUSED, OptionValues
from rmq_spark.place.source import DELIVERIES, PARTITIONS, Source, SourceQueue
from rmq_spark.read.lease import info_of, plan, read_slice
from rmq_spark.schema import MESSAGE_SCHEMA, ArrowBatch
from rmq_spark.stream import options as given
from rmq_spark.stream.batch_leases import BatchLeases, Offset, ReplayedBatch
from rmq_spark.traces import without_trace

log = logging.getLogger(__name__)

SETTLED_TTL_S = 3600.0  # short: one record a batch; the consumer's own record lives longer
PEEKED = 50  # sample size for queues that cannot browse
BROWSED = 1000


class LeasedStreamReader(DataSourceStreamReader):
    """Streams a queue's messages. Pickling keeps only what `read` needs."""

    def __init__(self, options: OptionValues, application: str = "", schema: StructType = MESSAGE_SCHEMA) -> None:
        self._source = Source.of(options)
        self._schema = schema
        self._options = options
        self._leases: BatchLeases | None = None
        self._application = options[given.APPLICATION] or application
        self._planned = self._committed = 0
        self._fresh = Offset(self._source.queue, options[given.CONSUMER])

    def __getstate__(self) -> dict[str, Any]:
        return {"_source": self._source, "_schema": self._schema}

    def initialOffset(self) -> dict[str, Any]:
        """Return the start offset of a new stream; constant for this reader."""
        return self._fresh.plain

    @without_trace
    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[InputPartition]:
        """Return a batch's partitions. For a lost lease, options choose ReplayedBatch, LeaseLost or no partitions."""
        begin, until = self._offset(start), self._offset(end)
        if begin == until:  # Spark passes the last batch in its log, which may not be committed
            return []
        leases = self._leases_of(until)
        if begin.stream == until.stream:
            leases.finish(begin.seq)  # Spark commits a batch before planning the next
        if not until.seq:
            return []
        self._check_log(begin.seq)
        self._planned = until.seq
        lease = self._found(leases, until.seq)
        if lease is None:
            return []
        return list(plan(self._queue, lease, info_of(self._queue, lease.id), self._options[PARTITIONS]))

    @without_trace
    def commit(self, end: Mapping[str, Any]) -> None:
        """Ack the batch, unless `latestOffset` has acked it already."""
        until = self._offset(end)
        self._leases_of(until).finish(until.seq)
        self._committed = until.seq

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """Read one slice's messages, on an executor. Raises LeaseLost if some are gone."""
        return read_slice(self._source.settings, self._source.discipline, partition, self._schema)

    def stop(self) -> None:
        """Stop heartbeats; leases stay for a restart. Spark usually kills the process instead."""
        if self._leases is not None:
            self._leases.close()
            self._queue.close()

    @cached_property
    def _queue(self) -> SourceQueue:
        options, deliveries = self._options, "max_deliveries" if self._source.discipline == "leased" else "max_attempts"
        config = {"lease": options[given.LEASE], "settled_ttl": SETTLED_TTL_S, deliveries: options[DELIVERIES]}
        queue = self._source.open(**config)
        if not options[given.NEW_QUEUE]:
            self._source.check()
        return queue

    @property
    def _chosen(self) -> dict[str, Any]:
        """The argument of calls that concern some groups only."""
        groups = self._options[given.GROUPS]
        return {} if groups is None else {"groups": groups}

    def _offset(self, plain: Mapping[str, Any]) -> Offset:
        return Offset.read(plain, self._source.queue, self._options[given.CONSUMER])

    def _leases_of(self, offset: Offset) -> BatchLeases:
        if self._leases is None:
            alive_s = self._options[given.CONSUMER_TIMEOUT]
            self._leases = BatchLeases(self._source, self._queue, offset, alive_s, self._application, self._chosen)
        return self._leases

    def _claim(self, leases: BatchLeases, begin: Offset, most: int, wait_s: float) -> Offset:
        """Return the end of the next batch, of at most `most` messages; `begin` when no message is ready."""
        seq = self._next(leases, begin)
        if not most and not leases.exists(seq):
            return begin
        lease = leases.claim(seq, max(1, most), wait_s)
        return begin if lease is None else begin.at(seq)

    def _next(self, leases: BatchLeases, begin: Offset) -> int:
        """Return the next batch number: after `begin`, or after the last acked one if the checkpoint is older."""
        if begin.seq < leases.finished and not self._options[given.FAIL_ON_LOSS]:
            log.warning("skipping acked batches %d to %d of %r", begin.seq + 1, leases.finished, begin.consumer)
            return leases.finished + 1
        return begin.seq + 1

    def _check_log(self, begin: int) -> None:
        """Raise ConfigurationError for async progress tracking: it plans a batch before it commits the previous one."""
        if begin and begin == self._planned and self._committed < begin:
            raise ConfigurationError(ASYNC_REFUSED)

    def _most(self, most: float, most_bytes: int | None) -> int:
        """Return the largest number of messages for the next batch: at most `most`, in about `most_bytes`."""
        if most_bytes is not None and most >= 1:
            most = min(most, how_many(self._queue, most_bytes, self._options[given.GROUPS]))
        return int(most) if most < math.inf else max(1, self._backlog().ready)

    def _backlog(self) -> Backlog:
        """Return the work that the stream may claim."""
        return self._queue.backlog(**self._chosen)

    def _found(self, leases: BatchLeases, seq: int) -> Lease | None:
        """Return a batch's lease; None if it is gone and options allow."""
        try:
            return leases.lease(seq)
        except ReplayedBatch as error:
            if self._options[given.FAIL_ON_LOSS]:
                raise
            log.warning("%s", error)
        except LeaseLost as error:  # another holder has the messages: not lost, but not ours to read
            if self._options[given.FAIL_ON_LEASE_LOSS]:
                raise
            log.warning("empty batch: %s", error)
        return None


def how_many(queue: SourceQueue, most_bytes: int, groups: Sequence[str] | None = None) -> int:
    """Return how many of the oldest ready messages fit in `most_bytes`, at least one.

    Beyond 1,000 messages (50 if the queue is not leased), this is extrapolated from their mean size; with `groups`,
    from that of the messages of these groups among the first 1,000.
    """
    count = total = 0
    for message in _oldest(queue):
        if groups is not None and message.group not in groups:
            continue
        size = size_of(message)
        if total + size > most_bytes:
            return max(1, count)
        count, total = count + 1, total + size
    return max(1, most_bytes * count // max(1, total))


def _oldest(queue: SourceQueue) -> Iterator[Message]:
    """Lazily yield the oldest ready messages; the server shortens pages of large ones."""
    if not isinstance(queue, LeasedQueue):
        yield from queue.admin.peek(PEEKED)
        return
    seen = 0
    while seen < BROWSED and (page := queue.admin.browse("ready", seen, BROWSED - seen).messages):
        yield from page
        seen += len(page)


def size_of(message: Message) -> int:
    """Return the size of payload and headers."""
    return len(message.raw) + sum(len(name) + len(value) for name, value in message.headers.items())
