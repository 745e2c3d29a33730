"""The stream writer of Spark 4.1 and later, which passes Arrow batches."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from rmq_spark.write.stream import StreamSinkWriter


class ArrowStreamWriter(StreamSinkWriter, DataSourceStreamArrowWriter):
    """Write micro-batches that come as Arrow batches."""
