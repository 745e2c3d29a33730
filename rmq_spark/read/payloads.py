"""JSON payloads as columns, with a declared schema; payloads that do not fit are marked and do not fail the batch.

Payloads are bytes from any publisher: one that is not UTF-8, not JSON, or not of the declared schema makes one row
corrupt and does not fail the job. `parsed` keeps good and bad rows together, `split_json` returns them as two
DataFrames. Bad rows carry the columns needed to settle them: message id, lease, queue and reason.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from rmq_core import ConfigurationError
from rmq_spark.read.values import NOT_JSON, NOT_UTF8, REASON, VALUE


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
    declared = _struct(schema)
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


def _struct(schema: StructType | str) -> StructType:
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
