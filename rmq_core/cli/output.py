"""What the commands write: JSON lines for programs, tables for people.

Text out of messages is foreign: on a terminal it is shown without control characters and never read as markup.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDE = 160
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def console(*, errors: bool = False) -> Console:
    """A console on the present stdout or stderr; wide where nobody looks at it."""
    made = Console(stderr=errors, highlight=False, emoji=False)
    if not made.is_terminal:
        made.width = _WIDE
    return made


def say(text: str) -> None:
    """A line for people, on stdout."""
    console().print(Text(plain(text)), soft_wrap=True)


def note(text: str) -> None:
    """A remark, on stderr."""
    console(errors=True).print(Text(plain(text)), soft_wrap=True, style="dim")


def complain(text: str) -> None:
    """What went wrong, on stderr."""
    console(errors=True).print(Text("rmq: ", "bold red"), Text(plain(text)), sep="", soft_wrap=True)


def emit(record: Mapping[str, Any]) -> None:
    """One JSON object on a line of its own, at once."""
    sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def show(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """A table, or what to say when there are no rows."""
    filled = table(columns, rows)
    if filled.row_count:
        console().print(filled)
    else:
        say(empty)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Numbers stand to the right, texts to the left."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    listed = [list(row) for row in rows]
    for place, column in enumerate(columns):
        kinds = {type(row[place]) for row in listed} - {type(None)}
        drawn = kinds == {Text}
        made.add_column(
            column,
            justify="right" if kinds == {int} else "left",
            no_wrap=drawn,
            overflow="crop" if drawn else "fold",
        )
    for row in listed:
        made.add_row(*map(cell, row))
    return made


def cell(value: object) -> Text:
    """A value in a table."""
    if isinstance(value, Text):
        return value
    if value is None or isinstance(value, bool):
        return Text("yes" if value else "-")
    return Text(f"{value:,}" if isinstance(value, int) else plain(str(value)))


def plain(text: str) -> str:
    """A text whose control characters are spelled out, so that it cannot act on a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def preview(text: str, length: int = 60) -> str:
    """The beginning of a text."""
    return text if len(text) <= length else text[: length - 1] + "…"


def counted(number: int, noun: str) -> str:
    """`1 thing`, `2 things`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ago(seconds: float | None) -> str | None:
    """A duration in its two largest units."""
    if seconds is None:
        return None
    left, words = int(seconds), list[str]()
    for size, unit in _UNITS:
        if left >= size and len(words) < 2:
            words.append(f"{left // size} {unit}")
            left %= size
    return " ".join(words) or "0 s"
