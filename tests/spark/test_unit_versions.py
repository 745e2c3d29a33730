"""Spark 4.0 on any Spark: the names and modules that are newer are removed before our modules are imported."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import (
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from rmq_core import Stage
from rmq_spark.write.sink import Sink, Written, sink_of
from rmq_spark.write.stream import ROWS, RowStreamWriter

PLACE = {"url": "redis://localhost:6379/0", "queue": "q"}
SPARK_4_0 = f"""
import sys
import pyspark.sql.datasource as names

old = (
    "DataSource", "InputPartition", "DataSourceReader", "DataSourceStreamReader", "SimpleDataSourceStreamReader",
    "DataSourceWriter", "DataSourceArrowWriter", "DataSourceStreamWriter", "WriterCommitMessage",
    "DataSourceRegistration", "CaseInsensitiveDict",
)
for name, value in list(vars(names).items()):
    if getattr(value, "__module__", "") == names.__name__ and name not in old:
        delattr(names, name)
sys.modules["pyspark.sql.streaming.datasource"] = None

import pyspark_rmq, rmq_spark, rmq_spark.tables
from pyspark import cloudpickle as pickle
from rmq_spark.schema import BROWSE_SCHEMA, MESSAGE_SCHEMA
from rmq_spark.write.sink import Sink

Sink.begin = lambda _: None  # it calls Redis
place = {PLACE!r}
source = rmq_spark.RmqDataSource({{**place, "consumer": "c"}})
made = [
    source.streamReader(MESSAGE_SCHEMA),
    rmq_spark.RmqDataSource({{**place, "mode": "browse"}}).reader(BROWSE_SCHEMA),
]
for delivery in ("staged", "direct"):
    sink = rmq_spark.RmqDataSource({{**place, "delivery": delivery}})
    made += [sink.writer(MESSAGE_SCHEMA, False), sink.streamWriter(MESSAGE_SCHEMA, False)]
made.append(rmq_spark.RmqDataSource({{**place, "operation": "nack"}}).writer(MESSAGE_SCHEMA, False))
print(*(type(each).__name__ for each in pickle.loads(pickle.dumps(made))))
print(pyspark_rmq.DefaultSource.name())
"""


def test_spark_4_0_has_everything_that_batches_and_streams_need() -> None:
    ended = subprocess.run([sys.executable, "-c", SPARK_4_0], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == [
        "Spark40StreamReader", "BrowseReader", "RmqWriter", "RowStreamWriter", "RmqWriter", "RowStreamWriter",
        "RmqSettler", "rmq",
    ]  # fmt: skip


KINDS = {
    "payload": BinaryType(),
    "headers": MapType(StringType(), StringType()),
    "delay_ms": LongType(),
    "message_id": StringType(),
    "lease": StringType(),
}


@pytest.mark.parametrize("count", [0, 1, ROWS + 1])
def test_rows_become_arrow_batches_of_the_columns_that_a_sink_publishes(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    schema = StructType([StructField(name, kind) for name, kind in KINDS.items()])
    written: list[Any] = []

    def write(_: Sink, batches: Any) -> Written:
        written.extend(batches)
        return Written(Stage("s", 1, plain=True))

    monkeypatch.setattr(Sink, "write", write)
    row = Row(*KINDS)
    rows = [row(b"\xff", {"a": "b"} if at % 2 else None, at, None, "x") for at in range(count)]
    assert RowStreamWriter(sink_of(PLACE, schema), schema).write(iter(rows)).stage == Stage("s", 1, plain=True)
    table = pa.Table.from_batches(written).to_pylist() if written else []
    assert len(written) == -(-count // ROWS)
    assert [each["delay_ms"] for each in table] == list(range(count))
    assert [each["headers"] for each in table] == [[("a", "b")] if at % 2 else None for at in range(count)]
    assert all(set(each) == {"payload", "headers", "delay_ms", "message_id"} for each in table)
