"""A Python source and a Python sink for Spark that use no Redis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from benchmarks.local_spark import THREADS
from rmq_spark.read.lease import FETCH
from rmq_spark.schema import MESSAGE_SCHEMA, ArrowBatch

VALUES = {"string": "0123456789abcdef-1f4", "map": {}, "integer": 1, "timestamp": 0}
"""By the name of a Spark type: the value in each row of the source. The payload has the size that it is asked for."""


def register(spark: Any) -> tuple[str, str]:
    """Register the source and the sink with a session; return their names as formats."""
    for each in (Repeating, Dropping):
        spark.dataSource.register(each)
    return Repeating.name(), Dropping.name()


@dataclass
class Rows(InputPartition):  # type: ignore[misc]
    """How many rows a task yields."""

    count: int


class Repeating(DataSource):  # type: ignore[misc]
    """As many rows of RMQ's columns as the option `rows` says, with payloads of `size` bytes."""

    @classmethod
    def name(cls) -> str:
        return "rmq_bench_source"

    def schema(self) -> StructType:
        return MESSAGE_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return RepeatingReader(schema, int(self.options["rows"]), int(self.options["size"]))


class RepeatingReader(DataSourceReader):  # type: ignore[misc]
    """Yields one batch again and again."""

    def __init__(self, schema: StructType, rows: int, size: int) -> None:
        self.schema, self.rows, self.values = schema, rows, {**VALUES, "binary": b"x" * size}

    def partitions(self) -> list[Rows]:
        return [Rows(self.rows // THREADS) for _ in range(THREADS)]

    def read(self, partition: Rows) -> Iterator[ArrowBatch]:
        import pyarrow as pa  # as the readers of RMQ import it
        from pyspark.sql.pandas.types import to_arrow_schema

        arrow = to_arrow_schema(self.schema, timezone="UTC")
        values = [self.values[field.dataType.typeName()] for field in self.schema]
        columns = [pa.array([value] * FETCH, each.type) for value, each in zip(values, arrow, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow)
        for at in range(0, partition.count, FETCH):
            yield batch.slice(0, min(FETCH, partition.count - at))


class Dropping(DataSource):  # type: ignore[misc]
    """A sink that counts rows and drops them."""

    @classmethod
    def name(cls) -> str:
        return "rmq_bench_sink"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002  Spark's
        return DroppingWriter()


class DroppingWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Counts the rows of a task."""

    def write(self, iterator: Iterator[ArrowBatch]) -> WriterCommitMessage:
        sum(batch.num_rows for batch in iterator)
        return WriterCommitMessage()
