"""The tables of docs/how-to/payloads.md, for the tests of each tool: what may be published, and as what it is read."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import attrs
import msgspec
import numpy as np
import pandas as pd
import pydantic

_PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "payloads.md"


@dataclass
class Order:
    id: int
    price: Decimal


class Model(pydantic.BaseModel):
    id: int
    price: Decimal


class Struct(msgspec.Struct):
    id: int
    price: Decimal


@attrs.define
class Attrs:
    id: int
    price: Decimal


class Point(NamedTuple):
    x: int
    y: int


class Colour(enum.Enum):
    RED = "red"


class Kind(NamedTuple):
    """A row of the table: a value to publish, the format in which it is stored, and the value that a consumer reads."""

    name: str
    published: Any
    stored: str
    read: Any


NAMES = {
    "UTC": UTC, "Attrs": Attrs, "Colour": Colour, "Decimal": Decimal, "MappingProxyType": MappingProxyType,
    "Model": Model, "Order": Order, "Point": Point, "PurePosixPath": PurePosixPath, "Struct": Struct, "UUID": UUID,
    "date": date, "datetime": datetime, "np": np, "pd": pd, "time": time, "timedelta": timedelta,
}  # fmt: skip


def _rows(heading: str) -> Iterator[list[str]]:
    lines = _PAGE.read_text().split(f"| {heading} |", 1)[1].splitlines()[2:]
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def _value(cell: str) -> Any:
    (code,) = re.findall("`([^`]*)`", cell)
    return eval(code, dict(NAMES))  # the expressions are those of the page


KINDS = [
    Kind(name, _value(given), stored, _value(read))
    for name, given, stored, read in _rows("published | for example | stored as | read as")
]
REFUSED = [_value(given) for given, _ in _rows("refused | because")]
PUBLISHED, READ = [kind.published for kind in KINDS], [kind.read for kind in KINDS]
