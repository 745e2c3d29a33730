"""JSON payloads as columns with a declared schema, after reading or while messages are read.

Payloads are bytes from any publisher: one that is not UTF-8, not JSON, or not of the declared schema makes one row
corrupt and does not fail the job. `parsed` keeps good and bad rows together, `split_json` returns them as two
DataFrames. Bad rows carry the columns needed to settle them: message id, lease, queue and reason.

`valueSchema` does the same where messages are read, in the columns `value` and `reason`. JSON is read strictly. Dates,
times, decimals and binary values depend on the session, which only Spark knows, so they are refused. A row that raises
would end a query at each of its starts. So a reading returns only what Arrow can store in the column: texts as UTF-8,
whole numbers within the range of their type, floats.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeAlias, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import DataType, StringType, StructField, StructType

from rmq_core import ConfigurationError
from rmq_core.messages import json_text
from rmq_spark.schema import ArrowBatch, arrow_schema

VALUE, REASON = "value", "reason"
NOT_UTF8 = "payload is not UTF-8"
NOT_JSON = "payload is not JSON of the declared schema"
Reading: TypeAlias = Callable[[Any], Any]
BITS: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
NO_NUMBERS = ("NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF")


def with_value(batch: ArrowBatch, schema: T.StructType) -> ArrowBatch:
    """Return messages with the two columns added, in exactly this schema."""
    import pyarrow as pa  # takes 300 ms, which only executors need

    declared = _value_of(schema)
    needed = [field.name for field in declared.fields if not field.nullable]
    parse = partial(_parsed, _reading(declared, VALUE), needed)
    found = arrow_schema(schema)
    pairs = [parse(payload) for payload in batch.column("payload").to_pylist()]
    added = [pa.array([pair[at] for pair in pairs], found.field(name).type) for at, name in enumerate((VALUE, REASON))]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=found)


def check_value(schema: T.StructType) -> None:
    """Raise ConfigurationError when a field has a type that only Spark can read."""
    _reading(_value_of(schema), VALUE)


def _value_of(schema: T.StructType) -> T.StructType:
    return cast("T.StructType", schema[VALUE].dataType)


def _parsed(read: Reading, needed: Sequence[str], payload: bytes) -> tuple[Any, str | None]:
    """Return the value, or the reason why there is none."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None, NOT_UTF8
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            _no()
        for name in needed:
            if found.get(name) is None:
                return None, f"payload has no {name!r}, which is NOT NULL"
        return read(found), None
    except (ValueError, RecursionError):
        return None, NOT_JSON


def _reading(kind: T.DataType, name: str) -> Reading:
    """Return a function that reads a JSON value of a type, and raises ValueError for another one."""
    if isinstance(kind, T.StructType):
        fields = {f.name: (_reading(f.dataType, f"{name}.{f.name}"), f.nullable) for f in kind.fields}
        return partial(_struct, fields)
    if isinstance(kind, T.ArrayType):
        return partial(_list, _reading(kind.elementType, name), kind.containsNull)
    if type(kind) in BITS:
        return partial(_whole, 1 << (BITS[type(kind)] - 1))
    simple = {T.StringType: json_text, T.BooleanType: _flag, T.FloatType: _number, T.DoubleType: _number}
    if type(kind) not in simple:
        raise ConfigurationError(
            f"option valueSchema: {name} is {kind.simpleString()}, which only Spark can read: leave the option out, and"
            " use rmq_spark.split_json(messages, schema)"
        )
    return simple[type(kind)]


def _no() -> NoReturn:
    raise ValueError


def _struct(fields: Mapping[str, tuple[Reading, bool]], found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        _no()
    return {name: _item(read, found.get(name), nullable) for name, (read, nullable) in fields.items()}


def _list(read: Reading, nullable: bool, found: Any) -> list[Any]:
    return [_item(read, item, nullable) for item in found] if isinstance(found, list) else _no()


def _item(read: Reading, found: Any, nullable: bool) -> Any:
    if found is None:
        return None if nullable else _no()
    return read(found)


def _whole(bound: int, found: Any) -> int:
    return found if type(found) is int and -bound <= found < bound else _no()


def _number(found: Any) -> float:
    if isinstance(found, bool) or not (isinstance(found, int | float) or found in NO_NUMBERS):
        _no()
    try:
        return float(found)
    except OverflowError:  # a whole number of over 308 digits, which Spark reads as it reads 1e309
        return math.inf if found > 0 else -math.inf


def _flag(found: Any) -> bool:
    return found if isinstance(found, bool) else _no()


class Split(NamedTuple):
    """Rows whose payload fits the schema, and those whose payload does not."""

    good: DataFrame
    """The columns of the message and `value`, a struct of the declared schema."""
    corrupt: DataFrame
    """The columns of the message and `reason`."""


def parsed(messages: DataFrame, schema: StructType | str) -> DataFrame:
    """Add two columns to the messages: `value`, a struct of `schema` (or DDL), and `reason`, null when `value` fits.

    A field that is missing is null, unless the schema says `NOT NULL`: then the payload is corrupt. A field that is not
    declared is left out. Raises ConfigurationError for a schema that is no struct, and without the column `payload`.
    """
    rows, reason, value = _read(messages, schema)
    return rows.withColumn(REASON, reason).withColumn(VALUE, F.when(F.col(REASON).isNull(), value))


def split_json(messages: DataFrame, schema: StructType | str) -> Split:
    """Parse payloads, and separate those that fit from those that do not. This evaluates neither DataFrame."""
    rows, reason, value = _read(messages, schema)
    good = rows.where(reason.isNull()).drop(REASON).withColumn(VALUE, value)
    return Split(good, rows.withColumn(REASON, reason).where(F.col(REASON).isNotNull()).drop(VALUE))


def _read(messages: DataFrame, schema: StructType | str) -> tuple[DataFrame, Column, Column]:
    """Return the messages with the parsed `value`, the expression of `reason`, and that of a `value` that fits."""
    if "payload" not in messages.columns:
        raise ConfigurationError(f"messages have no column payload, only {', '.join(messages.columns)}")
    declared = _struct_type(schema)
    spare = _spare(declared)
    # Spark reads all fields as nullable, and puts text that does not fit into a column that the schema has to name.
    fields = [StructField(field.name, field.dataType) for field in declared.fields]
    wanted = StructType([*fields, StructField(spare, StringType())])
    text = F.col("payload").cast("string")
    # Spark copies a column of a projection into every filter that uses it, which would parse the payload once more for
    # each, unless the column is not deterministic. A generator prevents that too, for a tenth of the time of parsing.
    opaque = F.when(F.spark_partition_id() >= 0, text)
    read = F.from_json(opaque, wanted, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": spare})
    rows = messages.drop(VALUE).select("*", read.alias(VALUE))
    return rows, _reason(declared, spare), F.col(VALUE).dropFields(spare)


def _reason(declared: StructType, spare: str) -> Column:
    """Return why a payload does not fit, or null when it does.

    Parsing replaces what is not UTF-8. That is checked here and not in the argument of `from_json`, because Spark
    generates no code for it and would call the check by reflection, which takes a third of the time of parsing.
    """
    value, utf8 = F.col(VALUE), F.coalesce(F.is_valid_utf8(F.col("payload").cast("string")), F.lit(col=False))
    reason = F.when(~utf8, NOT_UTF8).when(value.isNull() | value[spare].isNotNull(), NOT_JSON)
    for field in declared.fields:
        if not field.nullable:
            reason = reason.when(value[field.name].isNull(), f"payload has no {field.name!r}, which is NOT NULL")
    return reason


def _struct_type(schema: StructType | str) -> StructType:
    found: DataType = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if not isinstance(found, StructType) or not found.fields:
        raise ConfigurationError(f"schema must be a struct with at least one field, or its DDL, not {schema!r}")
    return found


def _spare(declared: StructType) -> str:
    """Return a name for the column of corrupt records that differs from all fields."""
    taken, name = {field.name.lower() for field in declared.fields}, "_corrupt"
    while name in taken:
        name += "_"
    return name
