"""The output of the commands, JSON lines for programs and tables for people; exit codes, errors, progress, questions.

Text from messages is untrusted: a terminal shows it without control characters, and it is never parsed as markup.
"""

from __future__ import annotations

import getpass
import io
import json
import os
import select
import socket
import sys
import termios
import time
import tty
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from enum import IntEnum
from types import TracebackType
from typing import Any, Self

import typer
from rich import box
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.table import Table
from rich.text import Text

from rmq_core.errors import (
    ConfigurationError,
    PayloadError,
    QueueFull,
    QueueUnavailable,
    RedisMessageQueueError,
    Unsupported,
)
from rmq_core.interrupt_handler import Stopping
from rmq_core.reports import Progress, PublishReport

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


def show(
    columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str, *, optional: Collection[str] = ()
) -> None:
    """Print a table, or the text `empty` if there are no rows. Of `optional` columns, those with a value are shown.

    If even a table with its widest column folded is too wide for the terminal, print a block of lines for each row, so
    that a long id stays on one line and can be copied.
    """
    rows = list(rows)
    kept = [at for at, name in enumerate(columns) if name not in optional or any(row[at] is not None for row in rows)]
    columns, rows = [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]
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


def preview(text: str, length: int = 60, around: str = "") -> str:
    """Return the beginning of a text, or its part `around` another that it has; at most `length` characters."""
    first = text.find(around) + len(around) // 2 - length // 2
    if first > 0 and len(text) > length:
        text = "…" + text[min(first, len(text) - length) + 1 :]
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


class Exit(IntEnum):
    """The exit codes of `rmq`."""

    DONE = 0
    FAILED = 1
    """RMQ or Redis refused, a consumed message failed, or the doctor found something to change."""
    USAGE = 2
    """A parameter cannot work, or the discipline cannot do this."""
    UNAVAILABLE = 3
    """Redis did not answer."""
    FULL = 4
    """The queue has no room; the error message states how many messages were stored before."""


def report(error: RedisMessageQueueError) -> Exit:
    """Write an error to stderr and return the exit code for it."""
    complain(str(error))
    if isinstance(error.report, PublishReport):
        complain(f"stored before that: {error.report.accepted}")
    if isinstance(error, ConfigurationError | Unsupported | PayloadError):
        return Exit.USAGE
    if isinstance(error, QueueUnavailable):
        return Exit.UNAVAILABLE
    return Exit.FULL if isinstance(error, QueueFull) else Exit.FAILED


_SHOW_S = 0.5


_BACK = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


class ProgressLine:
    """Shows a number on a terminal, at most twice a second."""

    def __init__(self, done: str) -> None:
        self._done, self._next = done, 0.0
        self._console = console(errors=True)

    def report(self, number: int, besides: str = "") -> None:
        """Show how many messages are done."""
        if self._console.is_terminal and (now := time.monotonic()) >= self._next:
            self._next = now + _SHOW_S
            done = f"{self._done} {number:,} " if self._done else ""
            self._console.control(_BACK)
            self._console.print(f"{done}{besides}", end="")

    def close(self) -> None:
        """Clear the line."""
        if self._console.is_terminal and self._next:
            self._console.control(_BACK)


@contextmanager
def shown(done: str) -> Iterator[ProgressLine]:
    """Show progress while the block runs."""
    made = ProgressLine(done)
    try:
        yield made
    finally:
        made.close()


class Watched:
    """Progress of a command that may be stopped. `done` adds up the changes of several operations."""

    def __init__(self, line: ProgressLine, stopping: Stopping) -> None:
        self._line, self._stopping = line, stopping
        self.done = 0
        self.last = Progress(0, 0, 0)

    @property
    def stopped(self) -> bool:
        return self._stopping.is_set()

    def step(self, progress: Progress) -> bool:
        """Show the progress of an operation; return whether it may go on."""
        # A redrive makes the list shorter; its length at the beginning is what a reader waits for.
        self.last = progress = progress._replace(total=max(progress.total, self.last.total))
        self._line.report(self.done + progress.changed, f"({progress.scanned:,} of {progress.total:,} looked at) ")
        return not self.stopped

    def end(self) -> None:
        """End the command with the exit code for a failure if it was stopped, and say how far it came."""
        if self.stopped:
            note(f"stopped: {self.last.scanned:,} of {self.last.total:,} messages looked at; run it again to go on")
            raise typer.Exit(Exit.FAILED)


@contextmanager
def watched(done: str) -> Iterator[Watched]:
    """Watch a long command while the block runs."""
    with shown(done) as line, closing(Stopping()) as stopping:
        yield Watched(line, stopping)


_LOOK_S = 0.2


class Keyboard:
    """Reads keys one by one while its block runs. Ignores keys unless both stdin and stdout are terminals."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if sys.stdin.isatty() and sys.stdout.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def waited(self, seconds: float, stopping: Stopping) -> bool:
        """Wait for `seconds`. Return True as soon as `q` is pressed or a signal asks to stop, else False."""
        if self._before is None:
            stopping.rest(seconds)
            return stopping.is_set()
        until = time.monotonic() + seconds
        while not stopping.is_set() and (left := until - time.monotonic()) > 0:
            readable, _, _ = select.select([sys.stdin], [], [], min(left, _LOOK_S))
            # Read without Python's buffer: `select` does not see a second key that is already buffered.
            if readable and b"q" in os.read(sys.stdin.fileno(), 64).lower():
                return True
        return stopping.is_set()


def confirm(question: str) -> None:
    """Return after a yes; end the command after a no. Raises ConfigurationError if stdin is no terminal."""
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{question} stdin is no terminal, so nobody can confirm: add --yes")
    typer.confirm(plain(question), abort=True, err=True)
