"""Reading a lease from the executors: pure reads of slices, which change nothing and can be repeated.

A read returns exactly the slice it was planned with, under the token it was planned with, or raises. Fewer rows in
silence would become a loss in a sink that overwrites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

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

from rmq_core import Columns, Lease, LeaseLost, RedisSettings, header_items
from rmq_spark.arrow import arrow_schema
from rmq_spark.source import Source, SourceQueue

if TYPE_CHECKING:
    import pyarrow as pa

FETCH = 10_000  # messages a fetch, unless that is more than BATCH_BYTES
BATCH_BYTES = 8 << 20
FIRST_FETCH = 64  # how large messages are is not known before the first ones are here
MESSAGE_SCHEMA = StructType(
    [
        StructField("message_id", StringType(), nullable=False),
        StructField("payload", BinaryType(), nullable=False),
        StructField("headers", MapType(StringType(), StringType(), valueContainsNull=False), nullable=False),
        StructField("deliveries", IntegerType(), nullable=False),
        StructField("enqueued_at", TimestampType(), nullable=False),
        StructField("lease", StringType(), nullable=False),
        StructField("queue", StringType(), nullable=False),
    ]
)


@dataclass(frozen=True)
class LeaseSlice(InputPartition):
    """Indexes `lo` to `hi` of a lease, of which `unsettled` messages are still to be worked on."""

    lo: int
    hi: int
    unsettled: int

    def __repr__(self) -> str:
        return f"LeaseSlice({self.lo}, {self.hi})"


@dataclass(frozen=True)
class BatchSlice(LeaseSlice):
    """A slice of the batch that a lease holds; the executors need its queue and its token."""

    lease: Lease

    def __repr__(self) -> str:
        return f"BatchSlice({self.lease.id!r}, {self.lo}, {self.hi})"


class LeaseReader(DataSourceReader):
    """Reads leases. Pickled to the executors with settings and tokens: those are in no option and no config."""

    def __init__(self, settings: RedisSettings, slices: Sequence[BatchSlice], discipline: str = "leased") -> None:
        self._settings = settings
        self._slices = list(slices)
        self._discipline = discipline

    def partitions(self) -> list[InputPartition]:
        """The planned slices. Nothing is claimed here: Spark may plan as often as it likes."""
        return list(self._slices)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one slice. Raises LeaseLost when the lease, or part of the slice, is gone."""
        if not isinstance(partition, BatchSlice):  # what Spark makes of an empty plan
            return
        with Source(self._settings, partition.lease.queue, self._discipline).open() as queue:
            yield from read_slice(queue, partition)


class Loosened(DataSourceReader):
    """The rows of another reader with columns that may be null, as Spark's catalog declares those of a table."""

    def __init__(self, reader: DataSourceReader, schema: StructType) -> None:
        self._reader = reader
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Those of the other reader."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Its batches: Spark compares their schema with the declared one, null or not null included."""
        schema = arrow_schema(self._schema)
        batches: Iterator[Any] = self._reader.read(partition)
        return (batch.cast(schema) for batch in batches)


def read_slice(queue: SourceQueue, part: BatchSlice) -> Iterator[pa.RecordBatch]:
    """The messages of a slice. Raises LeaseLost when the lease, or part of the slice, is gone."""
    found = 0
    for batch in _fetched(queue, part):
        found += batch.num_rows
        yield batch
    if found != part.unsettled:
        detail = f"{found} of {part.unsettled} messages are left in its slice {part.lo}:{part.hi}"
        raise LeaseLost(part.lease.id, detail)


def _fetched(queue: SourceQueue, part: BatchSlice) -> Iterator[pa.RecordBatch]:
    """A slice in steps of about BATCH_BYTES, so that large payloads do not fill the executor."""
    lease, lo, step = part.lease, part.lo, FIRST_FETCH
    while lo < part.hi:
        batch = record_batch(queue.read_columns(lease, lo, min(lo + step, part.hi)), lease.id, queue.name)
        lo += step
        if batch.num_rows:  # there are none where all are settled
            yield batch
            step = max(1, min(FETCH, BATCH_BYTES * batch.num_rows // batch.nbytes))


def record_batch(columns: Columns, lease_id: str, queue: str) -> pa.RecordBatch:
    """Messages as one Arrow batch of exactly the schema Spark expects."""
    import pyarrow as pa  # noqa: PLC0415  300 ms that only executors should pay

    schema, rows = arrow_schema(MESSAGE_SCHEMA), len(columns.ids)
    enqueued = pa.array(columns.enqueued_ms, pa.timestamp("ms", "UTC"))
    arrays = [
        pa.array(columns.ids, pa.binary()).cast(pa.string()),  # checks UTF-8 without a str for each
        pa.array(columns.payloads, pa.binary()),
        _maps(columns.headers, schema.field("headers").type),
        pa.array(columns.deliveries, pa.int32()),
        enqueued.cast(schema.field("enqueued_at").type),
        pa.repeat(pa.scalar(lease_id), rows),
        pa.repeat(pa.scalar(queue), rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _maps(headers: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    """Headers as an Arrow map; messages mostly have the same, or none, so that each kind is decoded once."""
    import pyarrow as pa  # noqa: PLC0415  as above

    known = {text: list(header_items(text)) for text in set(headers)}
    if len(known) != 1:
        return pa.array([known[text] for text in headers], kind)
    (items,) = known.values()
    ends = [len(items) * row for row in range(len(headers) + 1)]
    names, values = (pa.array([item[at] for item in items] * len(headers), pa.string()) for at in (0, 1))
    return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), names, values, type=kind)


def plan(queue: SourceQueue, lease: Lease, parts: int) -> list[BatchSlice]:
    """At most `parts` slices that cover what is unsettled. Raises LeaseLost."""
    info = queue.lease_info(lease.id)
    if info is None:
        raise LeaseLost(lease.id)
    if info.settled:
        slices = slices_around([message.index for message in queue.messages(lease)], parts)
    else:
        slices = whole_slices(lease.count, parts)
    slim = replace(lease, envelopes=None)  # the executors read what they need
    return [BatchSlice(part.lo, part.hi, part.unsettled, slim) for part in slices]


def whole_slices(count: int, parts: int) -> list[LeaseSlice]:
    """`count` unsettled messages cut into at most `parts` slices of nearly the same size."""
    parts = min(count, parts)
    edges = [count * part // parts for part in range(parts)] + [count] if parts else []
    return [LeaseSlice(lo, hi, hi - lo) for lo, hi in pairwise(edges)]


def slices_around(unsettled: Sequence[int], parts: int) -> list[LeaseSlice]:
    """The same for a lease that was settled in part: slices that cover the unsettled indexes."""
    chunks = (unsettled[piece.lo : piece.hi] for piece in whole_slices(len(unsettled), parts))
    return [LeaseSlice(chunk[0], chunk[-1] + 1, len(chunk)) for chunk in chunks]
