"""Exports a queue, or its journal, as lines of JSON: reads page by page, removes nothing.

The lines of an export are a header, a JSON object for each message, and a last line that states how many there are and
has a digest of all of them, which shows that the file is whole. `docs/how-to/export-import.md` documents them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from rmq_core.admin.history import JournalEntry
from rmq_core.admin.verbs import can
from rmq_core.envelope.export_record import STATES, StoredMessage, record_of
from rmq_core.envelope.matching import Match, chosen_by
from rmq_core.errors import ConfigurationError, ExportDamaged, QueueChanged, Unsupported
from rmq_core.kernel.base import tools_of
from rmq_core.policy import moment
from rmq_core.reports import QueueStats

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
            if text.startswith(_FRAME) and text.endswith(b"}"):
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


Row: TypeAlias = Mapping[str, Any]
Write: TypeAlias = Callable[[Sequence[Row]], None]
_SUFFIXES = (".ndjson", ".jsonl")


class JournalExport:
    """One export. `rows` counts, and `last` is the id of the last entry, for the `after` of the next export.

    after: the id of the last entry that is not wanted; None for all entries. Entries that are written while the export
    runs are left out. Raises Unsupported for a discipline without a journal.
    """

    def __init__(self, queue: Any, *, after: str | None = None) -> None:
        self._read, self._name = queue.admin.journal, queue.name
        self.last, self.rows = after, 0

    def pages(self) -> Iterator[list[Row]]:
        """Yield the rows, oldest first, a page at a time."""
        until = None
        while True:
            page = self._read(after=self.last, until=until)
            if page.entries:
                self.rows, self.last = self.rows + len(page.entries), page.entries[-1].entry_id
                yield [row_of(self._name, entry) for entry in page.entries]
            until = page.until
            if page.after is None:
                return

    def write(self, opened: AbstractContextManager[Write], report: Callable[[int], object] = lambda _: None) -> None:
        """Write all rows with a function that takes a page of them; `report` gets the number of rows so far."""
        with opened as write:
            for page in self.pages():
                write(page)
                report(self.rows)


def row_of(queue: str, entry: JournalEntry) -> Row:
    """Return an entry of a journal as a row. What the entry does not have is null."""
    return {
        "entry_id": entry.entry_id, "at": moment(entry.at_ms), "queue": queue, "event": entry.event,
        "messages": entry.messages, "message_ids": list(entry.ids), "lease_id": entry.lease_id or None,
        "fence": int(entry.fence) if entry.fence else None, "owner": entry.owner or None, "by": entry.by or None,
        "reason": entry.detail or None,
    }  # fmt: skip


@contextmanager
def into_file(path: Path) -> Iterator[Write]:
    """Return what writes rows to a file. It has its name only once it is complete.

    Raises ConfigurationError if the file exists, or its name does not end in .ndjson or .jsonl.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise ConfigurationError(
            f"the name of the file must end in {' or '.join(_SUFFIXES)}, not {path.name!r}: DuckDB and Polars read it"
        )
    if path.exists():
        raise ConfigurationError(f"{path} exists: name another file, for the journal may not go back that far any more")
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file, into_lines(file) as write:
            yield write
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def into_lines(file: BinaryIO) -> Iterator[Write]:
    """Return what writes rows as JSON, one a line; `at` is ISO 8601."""

    def write(rows: Sequence[Row]) -> None:
        shown = ({**row, "at": row["at"].isoformat()} for row in rows)
        file.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in shown)

    yield write


_AGAIN = "stop its producers and consumers, and export again; --live exports it as it is"


class Export:
    """One export. `counts`, messages by state, and `changed` are complete once all lines are read.

    states: which messages; None for all that no consumer holds. include_leased: also those that consumers hold. where:
    only messages that meet one of these conditions; () for all. live: export although the queue is not paused; messages
    that move meanwhile may be missing or doubled.
    Raises Unsupported or ConfigurationError before anything is read.
    """

    def __init__(
        self,
        queue: Any,
        version: str,
        *,
        states: Sequence[str] | None = None,
        include_leased: bool = False,
        live: bool = False,
        where: Match | None = None,
    ) -> None:
        self._queue, self._version, self._live = queue, version, live
        self.states = _chosen(queue, states, include_leased=include_leased)
        self.before: QueueStats = queue.stats()
        if not live:
            self._check_paused()
        self.counts, self.changed = Counter[str](), False
        self._test, self._seen = None if where is None else chosen_by(where), Counter[str]()
        self._digest = Digest()

    def lines(self, report: Callable[[int], object] = lambda _: None) -> Iterator[bytes]:
        """Yield the lines; call `report` with the number of messages so far after each page.

        Raises QueueChanged, before the last line, if messages moved in a queue that should stand still.
        """
        yield header_line(self._header())
        for state in self.states:
            yield from self._lines_of(state, report)
        self._compare(self._queue.stats())
        total = self.counts.total()
        yield footer_line(Footer(total, dict(self.counts), self._digest.text, self.changed))

    def _header(self) -> Header:
        queue, now = self._queue, self.before
        present = {
            "leased": now.leased, "delayed": now.delayed, "isolated": now.isolated, "ready": now.ready - now.isolated,
            "dead": now.dead,
        }  # fmt: skip
        return Header(queue.name, queue.discipline, self._version, self.states, present, self._live)

    def _lines_of(self, state: str, report: Callable[[int], object]) -> Iterator[bytes]:
        cursor: tuple[Any, ...] | None = ()
        while cursor is not None:
            page = tools_of(self._queue).export_page(state, cursor)
            if page.moved:
                self._note(f"{state} messages moved")
            found = [message for message in page.messages if self._is_wanted(message)]
            for message in found:
                line = message_line(message)
                self._digest.add(line[:-1])
                yield line
            self.counts[state] += len(found)
            self._seen[state] += len(page.messages)
            cursor = page.cursor
            report(self.counts.total())

    def _is_wanted(self, message: StoredMessage) -> bool:
        return self._test is None or self._test(message.envelope)

    def _compare(self, after: QueueStats) -> None:
        """Notice messages that left a state while it was exported; those that were added are no harm."""
        left = {"delayed": after.delayed, "dead": after.dead}
        for state, number in left.items():
            if number < self._seen[state]:
                self._note(f"{self._seen[state] - number} {state} messages moved or were removed")
        if "ready" in self.states and after.ready < self._seen["ready"] + self._seen["isolated"]:
            self._note("ready messages were claimed or removed")

    def _note(self, what: str) -> None:
        if not self._live:
            raise QueueChanged(f"queue {self._queue.name!r} changed during its export: {what}; {_AGAIN}")
        self.changed = True

    def _check_paused(self) -> None:
        queue = self._queue
        if not can(queue, "pause"):
            raise ConfigurationError(
                f"queue {queue.name!r} is {queue.discipline}, which cannot be paused: stop its producers and consumers,"
                " then export it with --live"
            )
        if not self.before.paused:
            raise ConfigurationError(
                f"queue {queue.name!r} is not paused: run `rmq pause QUEUE` first, or export it with --live; messages"
                " that move during a live export may be missing or doubled"
            )


def _chosen(queue: Any, states: Sequence[str] | None, *, include_leased: bool) -> list[str]:
    able = tools_of(queue).stored_states
    for state in states or ():
        if state not in able:
            raise Unsupported(queue.discipline, f"{state} messages", ("leased",))
    wanted = {*(states or able)} - {"leased"} | ({"leased"} if include_leased or "leased" in (states or ()) else set())
    return [state for state in STATES if state in wanted and state in able]
