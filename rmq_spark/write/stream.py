"""Publishing a stream: `stream.writeStream.format("rmq")`, each micro-batch once.

The step that publishes a batch also stores its number under the query id, or under `sinkId`, so that a batch that Spark
repeats after a crash is not published twice. A query whose checkpoint is deleted counts from 0 again: give it another
`sinkId`, or none. Spark passes Arrow batches from 4.1 on, and before that rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rmq_core import ConfigurationError
from rmq_spark.schema import ArrowBatch, arrow_schema
from rmq_spark.versions import STREAMS_ARROW
from rmq_spark.write.settling import OPERATION
from rmq_spark.write.sink import PUBLICATION, Sink, SinkWriter, Written, sink_of

ROWS = 1000
"""Rows of one Arrow batch."""


class StreamSinkWriter(SinkWriter):
    """Write micro-batches to a queue. Spark makes a new writer for each commit, so all its state is in the messages."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Publish a micro-batch, after all its tasks have succeeded."""
        queries = {each.query for each in messages if isinstance(each, Written)}
        if queries:
            self._sink.publish(messages, self._sink.sink_id or queries.pop(), batchId)


class RowStreamWriter(StreamSinkWriter, DataSourceStreamWriter):
    """Write micro-batches that come as rows, in Spark 4.0."""

    def __init__(self, sink: Sink, schema: StructType) -> None:
        super().__init__(sink)
        self._schema = StructType([field for field in schema.fields if field.name in sink.columns.names])

    def write(self, iterator: Iterator[Any]) -> Written:
        """Write one task's rows."""
        return super().write(arrow_batches(iterator, self._schema))


if STREAMS_ARROW:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter

    class ArrowStreamWriter(StreamSinkWriter, DataSourceStreamArrowWriter):
        """Write micro-batches that come as Arrow batches, from Spark 4.1 on."""


def stream_writer_of(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceStreamWriter:
    """Return the stream writer that `format("rmq")` uses. Raises ConfigurationError before the query starts."""
    if overwrite:
        raise ConfigurationError('a queue cannot be overwritten: use outputMode("append") or ("update")')
    if OPERATION.value(given.get(OPERATION.name)) != "publish":
        raise ConfigurationError("option operation: a stream only publishes; write failed rows back in foreachBatch")
    if PUBLICATION.value(given.get(PUBLICATION.name)) is not None:
        raise ConfigurationError(
            "option publication: a stream has no end; name the publication of each row in a column publication"
        )
    sink = sink_of(given, schema)
    return ArrowStreamWriter(sink) if STREAMS_ARROW else RowStreamWriter(sink, schema)


def arrow_batches(rows: Iterator[Row], schema: StructType) -> Iterator[ArrowBatch]:
    """Yield rows as Arrow batches with the columns of this schema."""
    import pyarrow as pa  # takes 300 ms, which only executors need

    found = arrow_schema(schema)
    while some := list(islice(rows, ROWS)):
        arrays = [pa.array([_entries(row[field.name]) for row in some], field.type) for field in found]
        yield pa.RecordBatch.from_arrays(arrays, schema=found)


def _entries(value: Any) -> Any:
    """Return a map as pairs, which is how Arrow builds one."""
    return list(value.items()) if isinstance(value, dict) else value
