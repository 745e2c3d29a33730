from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from rmq_core import ConfigurationError, NewMessage, PayloadError
from rmq_spark.schema import MESSAGE_SCHEMA, WRITTEN
from rmq_spark.write.columns import OF_DELIVERY, columns_of

TEXTS = MapType(StringType(), StringType())


def schema(**columns: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def messages(batch: dict[str, list[Any]], dedup_key: str | None = None, **columns: Any) -> list[Any]:
    as_json = columns.pop("as_json", False)
    found = columns_of(schema(**columns), dedup_key, as_json=as_json)
    return list(found.messages(pa.RecordBatch.from_pydict(batch)))


def test_a_message_has_the_values_of_its_row() -> None:
    batch = {
        "payload": ["a", "b"],
        "message_id": ["i", None],
        "headers": [[("k", "v")], None],
        "delay_ms": [1500, None],
    }
    arrays = {name: pa.array(values) for name, values in batch.items() if name != "headers"}
    arrays["headers"] = pa.array(batch["headers"], pa.map_(pa.string(), pa.string()))
    kinds = {"payload": StringType(), "message_id": StringType(), "headers": TEXTS, "delay_ms": IntegerType()}
    found = columns_of(schema(**kinds)).messages(pa.RecordBatch.from_pydict(arrays))
    assert list(found) == [NewMessage("a", "i", {"k": "v"}, 1.5), NewMessage("b")]


def test_every_writable_column_fills_one_field_of_a_message() -> None:
    fields = [column.field for column in WRITTEN.values() if not column.header]
    assert len(set(fields)) == len(fields)
    headers = {name for name, column in WRITTEN.items() if column.header}
    assert set(fields) | headers | {"payload", "dedup_key"} == set(NewMessage._fields), (
        "a field without a column in rmq_spark/schema.py"
    )


def test_no_column_of_a_message_that_was_read_is_left_out_unless_it_is_named() -> None:
    assert {*MESSAGE_SCHEMA.names} - {*WRITTEN, "payload"} == OF_DELIVERY
    assert columns_of(MESSAGE_SCHEMA).names == {*MESSAGE_SCHEMA.names} - OF_DELIVERY
    added = StructType([*MESSAGE_SCHEMA.fields, StructField("tenant", StringType())])
    with pytest.raises(ConfigurationError, match="column 'tenant' would not be published"):
        columns_of(added)


@pytest.mark.parametrize("text", ["{", "1", '"text"'])
def test_json_that_is_no_object_or_array_is_refused(text: str) -> None:
    with pytest.raises(PayloadError, match="JSON"):
        messages({"payload": [text]}, payload=StringType(), as_json=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"payload": IntegerType()}, "column 'payload' must be a string or binary, not int: cast it"),
        ({"body": StringType()}, "one of the columns payload and value is needed: make one with to_json"),
        ({"payload": StringType(), "value": StringType()}, "drop one of them"),
        ({"payload": StringType(), "price": DoubleType()}, "column 'price' would not be published"),
        ({"payload": StringType(), "headers": MapType(StringType(), LongType())}, "a map of strings to strings"),
        ({"payload": StringType(), "delay_ms": DoubleType()}, "'delay_ms' must be a whole number, not double"),
        ({"payload": StringType(), "message_id": LongType()}, "'message_id' must be a string, not bigint"),
    ],
)
def test_columns_that_cannot_be_published_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        columns_of(schema(**columns))


def test_a_deduplication_key_must_be_a_column_of_text_or_numbers() -> None:
    with pytest.raises(ConfigurationError, match="no column 'customer', which the option dedupKey names"):
        columns_of(schema(payload=StringType()), "customer")
    with pytest.raises(ConfigurationError, match="'price' must be a string or binary or a whole number"):
        columns_of(schema(payload=StringType(), price=DoubleType()), "price")
