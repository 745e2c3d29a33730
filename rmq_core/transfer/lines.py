"""The lines of an export: a header, a JSON object for each message, a last line that states how many there are.

`docs/how-to/export-import.md` documents them. The last line shows that a file is whole, and has a digest of all
messages. Pure: no Redis, no clock.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rmq_core.envelope.stored import StoredMessage, record_of
from rmq_core.errors import ExportDamaged

FORMAT = 1
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
_FRAME = b'{"rmq":'
_LONGEST_HEADER = 1 << 16


class Header(NamedTuple):
    """The first line. messages: how many were in each state when the export began. live: it was not paused."""

    queue: str
    discipline: str
    version: str
    states: Sequence[str]
    messages: Mapping[str, int]
    live: bool = False


class Footer(NamedTuple):
    """The last line. digest: that of all lines of messages. changed: messages moved during the export."""

    messages: int
    states: Mapping[str, int]
    digest: str
    changed: bool = False


class Digest:
    """A digest of all lines so far."""

    def __init__(self) -> None:
        self._state = hashlib.blake2b(digest_size=16)

    def add(self, line: bytes) -> None:
        """Add a line, without its end."""
        self._state.update(line)
        self._state.update(b"\n")

    @property
    def text(self) -> str:
        return self._state.hexdigest()


class NumberedLine(NamedTuple):
    """A line of a message: its number in the file, and its text without the line end."""

    number: int
    text: bytes


class ExportFile:
    """Reads an export line by line. `messages` and `digest` cover the lines before the one that was yielded last.

    first: the digest of the first message, '' without one. footer: the last line, None until it was read.
    Raises ExportDamaged if the first line is not the header of an export that this version reads.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        rest = iter(lines)
        self.header = _header(next(rest, b""))
        ahead = list(itertools.islice(rest, 1))
        self._lines = itertools.chain(ahead, rest)
        self.first = _digest_of(ahead[0]) if ahead and _is_message(ahead[0]) else ""
        self.digest, self.messages = Digest(), 0
        self.footer: Footer | None = None

    def __iter__(self) -> Iterator[NumberedLine]:
        for number, line in enumerate(self._lines, 2):
            text = line.rstrip(b"\r\n")
            if self.footer and text:
                raise ExportDamaged(f"line {number} comes after the last line of an export: import one file at a time")
            if text.startswith(_FRAME) and _is_whole(text):
                self.footer = _footer(text, number)
            elif text and _is_message(line):
                yield NumberedLine(number, text)
                self.digest.add(text)
                self.messages += 1

    def check_end(self, advice: str, *, edited: bool = False) -> None:
        """Raise ExportDamaged if the last line is missing, or if it does not fit the lines before (unless `edited`)."""
        if self.footer is None:
            raise ExportDamaged(
                f"the export is truncated: it ends after {self.messages:,} messages and has no last line; {advice}"
            )
        if not edited and (self.footer.messages, self.footer.digest) != (self.messages, self.digest.text):
            raise ExportDamaged(
                f"the export was altered: its last line states {self.footer.messages:,} messages, and these"
                f" {self.messages:,} are others; --edited accepts that; {advice}"
            )


def _is_message(line: bytes) -> bool:
    """Return whether a line is a whole message: a line that was cut off has no line end."""
    return line.endswith(b"\n") and not line.startswith(_FRAME)


def _is_whole(text: bytes) -> bool:
    return text.endswith(b"}")


def _digest_of(line: bytes) -> str:
    digest = Digest()
    digest.add(line.rstrip(b"\r\n"))
    return digest.text


def header_line(header: Header) -> bytes:
    return _line({"rmq": "export", "format": FORMAT, **header._asdict()})


def footer_line(footer: Footer) -> bytes:
    return _line({"rmq": "end", **footer._asdict()})


def message_line(message: StoredMessage) -> bytes:
    """Return the line of a message."""
    return _line(record_of(message))


def _line(record: Mapping[str, Any]) -> bytes:
    return _JSON.encode(record).encode() + b"\n"


def _header(line: bytes) -> Header:
    found = _frame(line[:_LONGEST_HEADER], "export", 1)
    if found.get("format") != FORMAT:
        raise ExportDamaged(
            f"line 1: the export has format {found.get('format')!r}, written by RMQ {found.get('version')}; this"
            f" version reads format {FORMAT}: import it with RMQ {found.get('version')} or later"
        )
    try:
        header = Header(**{name: found[name] for name in Header._fields})
    except KeyError as error:
        raise ExportDamaged(f"line 1: the header of the export has no {error}") from None
    if not all(isinstance(text, str) for text in (header.queue, header.discipline, *header.states)):
        raise ExportDamaged("line 1: the header of the export has fields of another type")
    return header


def _footer(line: bytes, number: int) -> Footer:
    found = _frame(line, "end", number)
    try:
        return Footer(**{name: found[name] for name in Footer._fields})
    except KeyError as error:
        raise ExportDamaged(f"line {number}: the last line of the export has no {error}") from None


def _frame(line: bytes, what: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("rmq") != what:
        named = "header" if what == "export" else "last line"
        raise ExportDamaged(f"line {number} is not the {named} of an export: `rmq export QUEUE` writes one")
    return found
