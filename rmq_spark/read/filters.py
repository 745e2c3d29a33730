"""Filters that Spark pushes down, as tests of a row: comparisons of plain columns with constants.

A column that a row does not have yet passes: what is known early, a state or a lease, decides early.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from rmq_spark.schema import FILTERED

Test: TypeAlias = Callable[[Mapping[str, Any]], bool]

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, among: value in among,
    StringStartsWith: lambda value, start: value.startswith(start),
    StringEndsWith: lambda value, end: value.endswith(end),
    StringContains: lambda value, part: part in value,
}
"""As in SQL, none of these is true of null."""


def row_test(pushed: Filter) -> Test | None:
    """The test that a filter is; None when Spark has to apply it itself."""
    column = _column(pushed.child if isinstance(pushed, Not) else pushed)
    holds = _holds(pushed)
    if column is None or holds is None:
        return None
    return lambda row: column not in row or holds(row[column])


def _holds(pushed: Filter) -> Callable[[Any], bool] | None:
    """What a filter says of a value."""
    if isinstance(pushed, Not):
        inner = _holds(pushed.child)
        told_of_null = isinstance(pushed.child, IsNull | IsNotNull | EqualNullSafe)
        return inner and (lambda value: (told_of_null or value is not None) and not inner(value))
    if isinstance(pushed, IsNull):
        return lambda value: value is None
    if isinstance(pushed, IsNotNull):
        return lambda value: value is not None
    if isinstance(pushed, EqualNullSafe):
        return lambda value: bool(value == pushed.value)
    compare, other = _COMPARISONS.get(type(pushed)), getattr(pushed, "value", None)
    if compare is None or other is None or (isinstance(pushed, In) and None in other):
        return None
    return lambda value: value is not None and compare(value, other)


def _column(pushed: Filter) -> str | None:
    """The plain column that a filter is about."""
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    return path[0] if len(path) == 1 and path[0] in FILTERED else None
