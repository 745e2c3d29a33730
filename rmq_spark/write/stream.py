"""Publishing a stream: `stream.writeStream.format("rmq")`, each micro-batch once.

The step that publishes a batch also stores its number under the query id, or under `sinkId`, so that a batch that Spark
repeats after a crash is not published twice. A query whose checkpoint is deleted counts from 0 again: give it another
`sinkId`, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rmq_core import ConfigurationError
from rmq_spark.write.settling import OPERATION
from rmq_spark.write.sink import SinkWriter, Written, sink_of


class RmqStreamWriter(SinkWriter, DataSourceStreamArrowWriter):
    """Write micro-batches to a queue. Spark makes a new writer for each commit, so all its state is in the messages."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Publish a micro-batch, after all its tasks have succeeded."""
        queries = {each.query for each in messages if isinstance(each, Written)}
        if queries:
            self._sink.publish(messages, self._sink.sink_id or queries.pop(), batchId)


def stream_writer_of(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> RmqStreamWriter:
    """Return the stream writer that `format("rmq")` uses. Raises ConfigurationError before the query starts."""
    if overwrite:
        raise ConfigurationError('a queue cannot be overwritten: use outputMode("append") or ("update")')
    if OPERATION.value(given.get(OPERATION.name)) != "publish":
        raise ConfigurationError("option operation: a stream only publishes; write failed rows back in foreachBatch")
    return RmqStreamWriter(sink_of(given, schema))
