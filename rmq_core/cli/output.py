"""The output of the commands: JSON lines for programs, tables for people.

Text from messages is untrusted: a terminal shows it without control characters, and it is never parsed as markup.
"""

from __future__ import annotations

import getpass
import io
import json
import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPED = 10_000
_LEAST = 20
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def console(*, errors: bool = False) -> Console:
    """Return a console on the current stdout or stderr; one that is no terminal never breaks a line."""
    made = Console(stderr=errors, highlight=False, emoji=False)
    if not made.is_terminal:
        made.width = _PIPED
    return made


def say(text: str) -> None:
    """Write a line for people to stdout."""
    console().print(Text(plain(text)), soft_wrap=True)


def note(text: str) -> None:
    """Write a remark to stderr."""
    console(errors=True).print(Text(plain(text)), soft_wrap=True, style="dim")


def complain(text: str) -> None:
    """Write an error or a warning to stderr."""
    console(errors=True).print(Text("rmq: ", "bold red"), Text(plain(text)), sep="", soft_wrap=True)


def emit(record: Mapping[str, Any], *, errors: bool = False) -> None:
    """Write a JSON object as one line to stdout, or to stderr with `errors`, and flush it."""
    stream = sys.stderr if errors else sys.stdout
    stream.write(json_of(record, stream.encoding) + "\n")
    stream.flush()


def json_of(record: Mapping[str, Any], encoding: str = "utf-8") -> str:
    """Return a record as JSON that can be encoded: escaped if the encoding lacks a letter, or it is half an emoji."""
    text = json.dumps(record, ensure_ascii=False)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(record)
    return text


def escape_what_is_missing() -> None:
    """Let stdout and stderr write letters that their encoding lacks as escapes instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def show(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """Print a table, or the text `empty` if there are no rows.

    If even a table with its widest column folded is too wide for the terminal, print a block of lines for each row, so
    that a long id stays on one line and can be copied.
    """
    rows = list(rows)
    listed = [[cell(value) for value in row] for row in rows]
    if not listed:
        say(empty)
        return
    here = console()
    widths = [max(cells[at].cell_len for cells in [*listed, [*map(Text, columns)]]) + 1 for at in range(len(columns))]
    if sum(widths) - max(widths) + min(_LEAST, max(widths)) <= here.width:
        here.print(table(columns, rows))
    else:
        for cells in listed:
            _print_block(here, columns, cells)


def _print_block(here: Console, columns: Sequence[str], cells: Sequence[Text]) -> None:
    name = max(map(len, columns))
    for column, value in zip(columns, cells, strict=True):
        here.print(Text(column.ljust(name + 2), "bold"), value, sep="", soft_wrap=True)
    here.print()


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table with numbers aligned right and texts aligned left."""
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
    """Return a value as the text of a table cell."""
    if isinstance(value, Text):
        return value
    if value is None or isinstance(value, bool):
        return Text("yes" if value else "-")
    return Text(f"{value:,}" if isinstance(value, int) else plain(str(value)))


def plain(text: str) -> str:
    """Return a text with its control characters escaped, so that it cannot control a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def preview(text: str, length: int = 60) -> str:
    """Return the beginning of a text, at most `length` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 thing`, `2 things`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def here() -> str:
    """Return who runs this command, for the owner of a lease or of an edit: `<user>@<host> pid <number>`."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a container may run as a user that has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} pid {os.getpid()}"


def ago(seconds: float | None) -> str | None:
    """Return a duration in its two largest units, None for None."""
    if seconds is None:
        return None
    left, words = int(seconds), list[str]()
    for size, unit in _UNITS:
        if left >= size and len(words) < 2:
            words.append(f"{left // size} {unit}")
            left %= size
    return " ".join(words) or "0 s"
