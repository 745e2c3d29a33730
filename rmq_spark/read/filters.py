"""Filters that Spark pushes down, as tests of a row: comparisons of plain columns with constants.

A row without the column passes the test. Thus a reader can test a row that has only the state and the lease, and skip
that state or lease before it reads a message.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import datasource as spark

from rmq_spark.schema import FILTERED

Test: TypeAlias = Callable[[Mapping[str, Any]], bool]

_COMPARISONS: dict[type[spark.Filter], Callable[[Any, Any], bool]] = {
    spark.EqualTo: operator.eq,
    spark.GreaterThan: operator.gt,
    spark.GreaterThanOrEqual: operator.ge,
    spark.LessThan: operator.lt,
    spark.LessThanOrEqual: operator.le,
    spark.In: lambda value, among: value in among,
    spark.StringStartsWith: lambda value, start: value.startswith(start),
    spark.StringEndsWith: lambda value, end: value.endswith(end),
    spark.StringContains: lambda value, part: part in value,
}
"""As in SQL, none of these is true of null."""


def row_test(pushed: spark.Filter) -> Test | None:
    """Return the filter as a test of a row, or None when Spark has to apply the filter itself."""
    column = _column(pushed.child if isinstance(pushed, spark.Not) else pushed)
    holds = _holds(pushed)
    if column is None or holds is None:
        return None
    return lambda row: column not in row or holds(row[column])


def _holds(pushed: spark.Filter) -> Callable[[Any], bool] | None:
    """Return the filter as a test of a value, or None when Spark has to apply the filter itself."""
    if isinstance(pushed, spark.Not):
        inner = _holds(pushed.child)
        handles_null = isinstance(pushed.child, spark.IsNull | spark.IsNotNull | spark.EqualNullSafe)
        return inner and (lambda value: (handles_null or value is not None) and not inner(value))
    if isinstance(pushed, spark.IsNull):
        return lambda value: value is None
    if isinstance(pushed, spark.IsNotNull):
        return lambda value: value is not None
    if isinstance(pushed, spark.EqualNullSafe):
        return lambda value: bool(value == pushed.value)
    compare, other = _COMPARISONS.get(type(pushed)), getattr(pushed, "value", None)
    if compare is None or other is None or (isinstance(pushed, spark.In) and None in other):
        return None
    return lambda value: value is not None and compare(value, other)


def _column(pushed: spark.Filter) -> str | None:
    """Return the plain column that a filter tests, or None when it tests no such column."""
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    return path[0] if len(path) == 1 and path[0] in FILTERED else None
