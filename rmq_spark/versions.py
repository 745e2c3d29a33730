"""The features of the installed PySpark, read from its modules, because vendors backport features."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from inspect import signature
from typing import Any

from pyspark.sql import datasource

STREAMS_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")
"""Whether Spark passes Arrow batches to the writer of a stream, as it does from 4.1 on; before that, rows."""
HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether Spark passes sources the start of a batch and a limit, as it does from 4.2 on."""


@cache
def in_utc() -> dict[str, Any]:
    """Return the argument by which `to_arrow_schema` takes UTC: older versions of Spark always use UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema  # takes 300 ms, which only executors need

    return {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
