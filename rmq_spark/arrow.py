"""Spark's schemas in Arrow's words, for the batches that executors hand to Spark."""

from __future__ import annotations

from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """Exactly the schema that Spark expects of its rows, with timestamps in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  imports pyarrow

    return to_arrow_schema(schema, **_in_utc())


@cache
def _in_utc() -> dict[str, Any]:
    """How one asks for UTC: older Sparks know no other zone, newer ones want to be told."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  as above

    return {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
