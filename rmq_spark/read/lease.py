"""Reading a lease from the executors: pure reads of slices, which change nothing and can be repeated.

A read returns exactly the slice it was planned with, under the token it was planned with, or raises. If it silently
returned fewer rows, a sink that overwrites would lose data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rmq_core import Lease, LeasedQueue, LeaseLost, RedisSettings
from rmq_core.reports import LeaseInfo
from rmq_spark.place.source import Source, SourceQueue
from rmq_spark.read.values import VALUE, with_value
from rmq_spark.schema import LEASED, MESSAGE_SCHEMA, ArrowBatch, leased_batch

FETCH = 8_000  # messages per fetch, as many as one request reads, unless they exceed BATCH_BYTES
BATCH_BYTES = 8 << 20
FIRST_FETCH = 64  # messages: their size is not known before the first fetch


@dataclass(frozen=True)
class LeaseSlice(InputPartition):
    """Indexes `lo` to `hi` of a lease, of which `unsettled` messages are still to be worked on.

    The executors need the lease's queue and its token.
    """

    lo: int
    hi: int
    unsettled: int
    lease: Lease


@dataclass
class LeaseReader(DataSourceReader):
    """Read leases. The reader is pickled to executors with settings and tokens, which are in no option and no config.

    schema: `MESSAGE_SCHEMA`, or the same with columns that may be null, as Spark's catalog declares those of a table.
    """

    settings: RedisSettings
    slices: Sequence[LeaseSlice]
    discipline: str = "leased"
    schema: StructType = field(default_factory=lambda: MESSAGE_SCHEMA)

    def partitions(self) -> list[InputPartition]:
        """Return the planned slices. This claims nothing, because Spark may plan any number of times."""
        return list(self.slices)

    def read(self, partition: InputPartition) -> Iterator[ArrowBatch]:
        """Return the messages of one slice. Raises LeaseLost when the lease, or part of the slice, is gone."""
        return read_slice(self.settings, self.discipline, partition, self.schema)


def read_slice(
    settings: RedisSettings, discipline: str, part: InputPartition, schema: StructType = MESSAGE_SCHEMA
) -> Iterator[ArrowBatch]:
    """Yield the messages of a slice. Raises LeaseLost when the lease, or part of the slice, is gone."""
    if not isinstance(part, LeaseSlice):  # Spark's placeholder for an empty plan
        return
    found = 0
    with Source(settings, part.lease.queue, discipline).open() as queue:
        for batch in _fetched(queue, part, schema):
            found += batch.num_rows
            yield batch
    if found != part.unsettled:
        detail = f"{found} of {part.unsettled} messages are left in its slice {part.lo}:{part.hi}"
        raise LeaseLost(part.lease.id, detail)


def _fetched(queue: SourceQueue, part: LeaseSlice, schema: StructType = MESSAGE_SCHEMA) -> Iterator[ArrowBatch]:
    """Yield a slice in steps of about BATCH_BYTES, so that large payloads do not fill the executor."""
    lease, lo, step = part.lease, part.lo, FIRST_FETCH
    valued = VALUE in schema.names
    messages = StructType([each for each in schema.fields if each.name in LEASED]) if valued else schema
    while lo < part.hi:
        found = queue.read_arrow(lease, lo, min(lo + step, part.hi))
        lo += step
        for each in found.to_batches():
            batch = leased_batch(each, messages)
            yield with_value(batch, schema) if valued else batch
        if found.num_rows:  # there are none where all are settled
            step = max(1, min(FETCH, BATCH_BYTES * found.num_rows // found.nbytes))


def info_of(queue: SourceQueue, lease_id: str) -> LeaseInfo:
    """Return the stored state of a lease. Raises LeaseLost when no lease has this id."""
    info = queue.lease_info(lease_id)
    if info is None:
        raise LeaseLost(lease_id)
    return info


def lease_of(queue: SourceQueue, info: LeaseInfo, token: str) -> Lease:
    """Return a lease that the driver holds, for executors to read. Raises LeaseLost for another token than its own."""
    if not isinstance(queue, LeasedQueue) or queue.config.shards is None:
        return Lease(queue.name, info.id, info.owner, info.count, None, token)  # they compare the token
    lease = queue.join(info.id)  # with its parts
    if lease.token != token:
        raise LeaseLost(info.id)
    return lease


def plan(queue: SourceQueue, lease: Lease, info: LeaseInfo, parts: int) -> list[LeaseSlice]:
    """Return at most `parts` slices that cover the unsettled messages. Raises LeaseLost."""
    unsettled = [message.index for message in queue.messages(lease)] if info.settled else range(lease.count)
    slim = replace(lease, envelopes=None)  # the executors read what they need
    return [LeaseSlice(chunk[0], chunk[-1] + 1, len(chunk), slim) for chunk in chunks(unsettled, parts)]


def chunks(unsettled: Sequence[int], parts: int) -> list[Sequence[int]]:
    """Split the indexes of unsettled messages into at most `parts` chunks of nearly the same size."""
    count, parts = len(unsettled), min(len(unsettled), parts)
    edges = [count * part // parts for part in range(parts)] + [count] if parts else []
    return [unsettled[lo:hi] for lo, hi in pairwise(edges)]
