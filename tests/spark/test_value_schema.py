"""`valueSchema` gives the same values and reasons as `split_json`, in a stream and in a batch."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from rmq_core import LeasedQueue
from rmq_spark import drain, parsed
from tests.spark.conftest import QUEUE
from tests.spark.streams import Stream
from tests.spark.test_payloads import PAYLOADS
from tests.spark.test_unit_values import DECLARED
from tests.spark.test_unit_values import PAYLOADS as RANDOM

SCHEMA = "id INT NOT NULL, name STRING, inner STRUCT<at: STRING, sizes: ARRAY<DOUBLE>>, big BIGINT, ok BOOLEAN"
MORE = {
    "nested": b'{"id": 4, "inner": {"at": {"x": [1, true]}, "sizes": [1, 2.5, null, "NaN"]}, "ok": true}',
    "large": b'{"id": 5, "big": 9223372036854775807}',
    "too large": b'{"id": 2147483648}',
    "a fraction": b'{"id": 1.5}',
    "a wrong item": b'{"id": 6, "inner": {"sizes": ["x"]}}',
    "a number as text": b'{"id": 7, "name": 8}',
    "a flag as number": b'{"id": true}',
    "two lines": b'{"id":\n 9}',
    "half an emoji": b'{"id": 10, "name": "a \\ud83d", "inner": {"at": "\\ude00"}}',
    "a number too large for JSON's readers": b'{"id": 11, "inner": {"sizes": [1%b, -1e999]}}' % (b"0" * 400),
}


def test_a_stream_with_a_value_schema_has_the_values_and_reasons_of_split_json(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    payloads = list((PAYLOADS | MORE).values())
    queue.publish_many(payloads)
    found: list[Row] = []
    expected: list[Row] = []

    def handle(messages: DataFrame, _: int) -> None:
        found.extend(messages.select("message_id", "value", "reason").orderBy("message_id").collect())
        plain = parsed(messages.drop("value", "reason"), SCHEMA)
        expected.extend(plain.select("message_id", "value", "reason").orderBy("message_id").collect())

    drain(Stream(spark, redis_url, tmp_path, valueSchema=SCHEMA).start(handle))
    assert len(found) == len(payloads)
    assert [str(row) for row in found] == [str(row) for row in expected]
    assert sum(row.reason is None for row in found) == 8


def test_a_batch_with_a_value_schema_has_the_column_value(
    spark: SparkSession, redis_url: str, queue: LeasedQueue
) -> None:
    queue.publish({"id": 1, "name": "a"})
    lease = queue.claim(lease_id="run")
    assert lease is not None
    options = {"url": redis_url, "queue": QUEUE, "lease": lease.id, "token": str(lease.token), "valueSchema": SCHEMA}
    rows = spark.read.format("rmq").options(**options).load()
    assert rows.select("value.id", "value.name").collect() == [Row(id=1, name="a")]


def test_a_type_that_only_spark_can_read_is_refused_with_the_way_out(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path
) -> None:
    queue.publish({"at": "2026-01-01T00:00:00Z"})
    with pytest.raises((AnalysisException, StreamingQueryException), match=r"value\.at is timestamp.*split_json"):
        drain(Stream(spark, redis_url, tmp_path, valueSchema="at TIMESTAMP").start(lambda *_: None))


def test_no_payload_ends_a_stream_with_a_value_schema(
    spark: SparkSession, redis_url: str, queue: LeasedQueue, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    payloads: set[bytes] = set()
    many = 3000 if pytestconfig.getoption("product") == "full" else 500

    @settings(max_examples=many, phases=[Phase.generate], database=None, deadline=None)
    @given(RANDOM)
    def draw(payload: bytes) -> None:
        payloads.add(payload)

    draw()
    queue.publish_many(sorted(payloads))
    rows: list[Row] = []

    def handle(messages: DataFrame, _: int) -> None:
        expected = parsed(messages.withColumnsRenamed({"value": "own", "reason": "why"}), DECLARED)
        rows.extend(expected.select("payload", "own", "why", "value", "reason").collect())

    declared = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in DECLARED.fields)
    drain(Stream(spark, redis_url, tmp_path, valueSchema=declared).start(handle))
    assert len(rows) == len(payloads)
    assert sum(row.why is None for row in rows) > many / 6
    differing = [row for row in rows if not agree(bytes(row.payload), *map(comparable, row[1:]))]
    assert not differing, differing[0]


def agree(payload: bytes, own: Any, why: str | None, value: Any, reason: str | None) -> bool:
    """Return whether a payload was read as by `parsed`, apart from what docs/reference/spark-source.md excepts."""
    if (own, why) == (value, reason):
        return True
    repeated = False

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        repeated |= len(dict(pairs)) < len(pairs)
        return dict(pairs)

    try:
        found = json.loads(payload, object_pairs_hook=unique)
    except ValueError:
        return own is None  # JSON is read strictly
    return repeated or (own is None and isinstance(found, dict) and found.get("tiny") in range(128, 256))


def comparable(found: Any) -> Any:
    """Return a value so that NaN equals NaN, and texts are equal if they are the same JSON."""
    if isinstance(found, Row):
        return {name: comparable(each) for name, each in found.asDict().items()}
    if isinstance(found, list):
        return [comparable(each) for each in found]
    if isinstance(found, str):
        try:
            return re.sub(r'"(NaN|-?Infinity)"', r"\1", json.dumps(json.loads(found)))
        except ValueError:
            return found
    return found if found is None else repr(found)
