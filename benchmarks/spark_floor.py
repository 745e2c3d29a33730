"""RMQ in Spark beside the floor: what a source and a sink in Python cost that use no Redis.

Spark passes every row between Java and Python, whatever the connector does. The source of the floor yields one Arrow
batch of RMQ's columns again and again, the sink drops all rows. The ratios are RMQ's rates to theirs, in jobs of three
sizes, with payloads of 190 bytes and two task threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

from benchmarks import cores
from benchmarks.figures import Figure, Findings
from benchmarks.payloads import payloads
from benchmarks.rounds import Contender, race
from benchmarks.spark_read import claimed, reading
from benchmarks.spark_write import QUEUE, saved
from benchmarks.targets import at_least
from rmq_core import LeasedQueue, RedisSettings
from rmq_spark.read.lease import FETCH
from rmq_spark.schema import MESSAGE_SCHEMA, ArrowBatch

SERVER = "7.0"
PARTS = 2
SIZES = {10_000: (21, 10), 200_000: (9, 5), 2_000_000: (3, 1)}
"""Rows of a job: rounds, and jobs before them, in which Java compiles the code."""
GOALS = {"read": 0.75, "direct write": 0.80, "staged write": 0.65}
TARGETS = {
    f"Spark: {what} over the floor, {rows:,} rows": at_least(goal) for what, goal in GOALS.items() for rows in SIZES
}
PAYLOAD = 190
VALUES = {
    "string": "0123456789abcdef-1f4", "binary": b"x" * PAYLOAD, "map": {}, "integer": 1, "timestamp": 0,
}  # fmt: skip
"""By type of Spark: what each row of the floor's source has."""


def measure(spark: Any, most: int) -> Findings:
    """Measure the sizes up to `most` rows."""
    found = Findings()
    for register in (Endless, Dropping):
        spark.dataSource.register(register)
    with cores.server(SERVER) as server:
        for rows, (rounds, warm) in SIZES.items():
            if rows <= most:
                found.add(_reads(spark, server.url, rows, rounds, warm))
                found.add(_writes(spark, server.url, rows, rounds, warm))
    return found


def _reads(spark: Any, url: str, rows: int, rounds: int, warm: int) -> Findings:
    settings = RedisSettings.from_url(url)
    endless = spark.read.format(Endless.name()).option("rows", rows).load()
    with LeasedQueue(settings, QUEUE) as queue:
        queue.publish_many(payloads(rows))
        lease = claimed(queue, rows)
        floor = Contender("floor", lambda: endless.write.format("noop").mode("overwrite").save(), rows)
        ours = Contender("read", reading(spark, settings, queue, lease), rows)
        laps = race(floor, [ours], rounds, warm)
        queue.ack(lease)
    return _beside(laps, ["read"], rows)


def _writes(spark: Any, url: str, rows: int, rounds: int, warm: int) -> Findings:
    frame = spark.range(0, rows, 1, PARTS).selectExpr(f"rpad(cast(id AS STRING), {PAYLOAD}, 'x') AS payload")
    with LeasedQueue(url, QUEUE) as queue:

        def check() -> None:
            assert queue.purge("ready") == rows

        def ours(delivery: str) -> Callable[[], None]:
            return lambda: saved(frame, url, delivery)

        floor = Contender("floor", lambda: frame.write.format(Dropping.name()).mode("append").save(), rows)
        names = {"direct write": "direct", "staged write": "staged"}
        contenders = [Contender(name, ours(delivery), rows, after=check) for name, delivery in names.items()]
        laps = race(floor, contenders, rounds, warm)
    return _beside(laps, [*names], rows)


def _beside(laps: Any, names: list[str], rows: int) -> Findings:
    bare, found = laps["floor"], Findings()
    found.figures = [
        Figure(
            f"Spark: {name} over the floor, {rows:,} rows",
            laps[name].ratio,
            context=f"{laps[name].rate:,.0f}/s, without Redis {bare.rate:,.0f}/s",
        )
        for name in names
    ]
    return found


@dataclass
class Rows(InputPartition):  # type: ignore[misc]
    """How many rows a task yields."""

    count: int


class Endless(DataSource):  # type: ignore[misc]
    """As many rows of RMQ's columns as the option `rows` says."""

    @classmethod
    def name(cls) -> str:
        return "rmq_floor_source"

    def schema(self) -> StructType:
        return MESSAGE_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return EndlessReader(schema, int(self.options["rows"]))


class EndlessReader(DataSourceReader):  # type: ignore[misc]
    """Yields one batch again and again."""

    def __init__(self, schema: StructType, rows: int) -> None:
        self.schema, self.rows = schema, rows

    def partitions(self) -> list[Rows]:
        return [Rows(self.rows // PARTS) for _ in range(PARTS)]

    def read(self, partition: Rows) -> Iterator[ArrowBatch]:
        import pyarrow as pa  # noqa: PLC0415  as the readers of RMQ import it
        from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  the same

        arrow = to_arrow_schema(self.schema, timezone="UTC")
        values = [VALUES[field.dataType.typeName()] for field in self.schema]
        columns = [pa.array([value] * FETCH, each.type) for value, each in zip(values, arrow, strict=True)]
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow)
        for at in range(0, partition.count, FETCH):
            yield batch.slice(0, min(FETCH, partition.count - at))


class Dropping(DataSource):  # type: ignore[misc]
    """A sink that counts rows and drops them."""

    @classmethod
    def name(cls) -> str:
        return "rmq_floor_sink"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002, FBT001  Spark's
        return DroppingWriter()


class DroppingWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Counts the rows of a task."""

    def write(self, iterator: Iterator[ArrowBatch]) -> WriterCommitMessage:
        sum(batch.num_rows for batch in iterator)
        return WriterCommitMessage()
