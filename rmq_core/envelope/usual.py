"""Converts values of common Python types to those of JSON, for the codec json. Pure.

docs/how-to/payloads.md has the table of types. Types of numpy, pydantic, msgspec and attrs are recognised only if the
program has imported these libraries: without that, no payload can have such a type.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID


def plain_of(value: Any) -> tuple[Any] | None:
    """Return what JSON has for a value, in a tuple; None if its type is none of the usual ones.

    One level only: what a list or a dict contains is left as it is.
    """
    if isinstance(value, datetime | time | date):  # also pandas.Timestamp, but not NaT, which differs from itself
        return (value.isoformat(),) if value == value else None  # noqa: PLR0124  NaT alone is not equal
    if isinstance(value, timedelta):
        return (duration(value),) if not getattr(value, "nanoseconds", 0) else None  # those of pandas
    if isinstance(value, Decimal):
        return (str(value),) if value.is_finite() else None
    if isinstance(value, UUID | PurePath):
        return (str(value),)
    if isinstance(value, Enum):
        return (value.value,)
    if isinstance(value, set | frozenset):
        return (list(value),)
    if isinstance(value, Mapping):
        return (dict(value),)
    return _of_library(value) or _of_fields(value)


def _of_fields(value: Any) -> tuple[Any] | None:
    if is_dataclass(value) and not isinstance(value, type):
        return ({each.name: getattr(value, each.name) for each in fields(value)},)
    if attributes := getattr(type(value), "__attrs_attrs__", None):
        return ({each.name: getattr(value, each.name) for each in attributes},)
    return None


def _of_library(value: Any) -> tuple[Any] | None:
    if _is(value, "pydantic", "BaseModel"):
        return (value.model_dump(mode="json"),)
    if _is(value, "msgspec", "Struct"):
        return (sys.modules["msgspec"].to_builtins(value),)
    if _is(value, "numpy", "ndarray"):
        return (list(value) if value.ndim else value[()],)  # not tolist, which makes numbers of times
    if _is(value, "numpy", "datetime64") or _is(value, "numpy", "timedelta64"):
        return _time_of(value)
    if _is(value, "numpy", "generic") and type(plain := value.item()) is not type(value):
        return (plain,)
    return None


def _is(value: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def _time_of(value: Any) -> tuple[Any] | None:
    if value != value:  # noqa: PLR0124  NaT
        return None
    if _is(value, "numpy", "datetime64"):
        return (str(value),)  # ISO 8601, in the unit of the value; `item` makes a number of nanoseconds
    if value.dtype.str[-2] in "YM":  # a year and a month have no length
        return None
    plain = value.astype("timedelta64[us]")
    return (plain.item(),) if plain == value else None  # else it has nanoseconds


def duration(value: timedelta) -> str:
    """Return an ISO 8601 duration as pydantic and msgspec read and write it, such as `P1DT2H` or `-PT0.5S`."""
    sign, value = ("-", -value) if value.days < 0 else ("", value)
    hours, rest = divmod(value.seconds, 3600)
    minutes, whole = divmod(rest, 60)
    seconds = f"{whole}.{value.microseconds:06d}".rstrip("0") if value.microseconds else str(whole)
    parts = [(hours, "H"), (minutes, "M"), (seconds, "S")]
    clock = "".join(f"{number}{unit}" for number, unit in parts if number not in {0, "0"})
    day = f"{value.days}D" if value.days else ""
    return f"{sign}P{day}T{clock}" if clock else f"{sign}P{day}" if day else "PT0S"
