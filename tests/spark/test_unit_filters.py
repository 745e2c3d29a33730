from __future__ import annotations

from typing import Any

import pytest
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

from rmq_spark.read.filters import row_test

LEASE, COUNT = ("lease",), ("deliveries",)


@pytest.mark.parametrize(
    ("pushed", "of_values"),
    [
        (EqualTo(LEASE, "a"), {"a": True, "b": False, None: False}),
        (EqualNullSafe(LEASE, "a"), {"a": True, "b": False, None: False}),
        (EqualNullSafe(LEASE, None), {"a": False, None: True}),
        (In(LEASE, ("a", "b")), {"a": True, "c": False, None: False}),
        (IsNull(LEASE), {"a": False, None: True}),
        (IsNotNull(LEASE), {"a": True, None: False}),
        (Not(EqualTo(LEASE, "a")), {"a": False, "b": True, None: False}),
        (Not(IsNull(LEASE)), {"a": True, None: False}),
        (Not(EqualNullSafe(LEASE, "a")), {"a": False, None: True}),
        (Not(In(LEASE, ("a",))), {"a": False, "b": True, None: False}),
        (StringStartsWith(LEASE, "a"), {"ab": True, "ba": False, None: False}),
        (StringEndsWith(LEASE, "a"), {"ab": False, "ba": True}),
        (StringContains(LEASE, "b"), {"abc": True, "ac": False}),
        (GreaterThan(COUNT, 2), {2: False, 3: True, None: False}),
        (GreaterThanOrEqual(COUNT, 2), {1: False, 2: True}),
        (LessThan(COUNT, 2), {1: True, 2: False, None: False}),
        (LessThanOrEqual(COUNT, 2), {2: True, 3: False}),
    ],
)
def test_a_filter_evaluates_a_value_as_sql_does(pushed: Filter, of_values: dict[Any, bool]) -> None:
    test = row_test(pushed)
    assert test is not None
    column = "deliveries" if getattr(pushed, "attribute", LEASE) == COUNT else "lease"
    assert {value: test({column: value}) for value in of_values} == of_values


def test_a_row_without_the_column_passes() -> None:
    test = row_test(EqualTo(COUNT, 2))
    assert test is not None
    assert test({"state": "ready"})


@pytest.mark.parametrize(
    "pushed",
    [
        EqualTo(("headers", "a"), "x"),
        EqualTo(("payload",), b"x"),
        EqualTo(LEASE, None),
        In(LEASE, ("a", None)),
        Not(Not(EqualTo(LEASE, "a"))),
        Not(EqualTo(("payload",), b"x")),
    ],
)
def test_a_filter_that_depends_on_spark_semantics_is_left_to_spark(pushed: Filter) -> None:
    assert row_test(pushed) is None
