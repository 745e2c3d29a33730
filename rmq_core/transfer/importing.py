"""Imports an export into a queue: writes chunks of messages, each together with the progress of the import."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rmq_core.envelope.export_record import StoredMessage, message_in
from rmq_core.envelope.payloads import PayloadLimits
from rmq_core.errors import ImportConflict, PayloadError, Unsupported
from rmq_core.kernel.base import tools_of
from rmq_core.kernel.transfer import Importable, ImportEntry
from rmq_core.protocol import DISCIPLINES
from rmq_core.transfer.exporting import ExportFile, NumberedLine

_MOST, _MOST_BYTES = 1000, 4 << 20
Report = Callable[[int], object]


class ImportOptions(NamedTuple):
    """How to import. states: only messages in these states; None for all.

    edited: accept a file whose last line does not fit its messages.
    """

    states: frozenset[str] | None = None
    edited: bool = False


class ImportProgress(NamedTuple):
    """What the queue remembers of an import: how many messages of the file are imported, or left out, and stored.

    first: the digest of the first message. digest: that of all those messages. done: the file was imported to its end.
    states: those whose messages are imported, with commas between them; "" for all.
    """

    done: bool = False
    lines: int = 0
    stored: int = 0
    first: str = "-"
    digest: str = "-"
    states: str = ""

    @classmethod
    def of(cls, record: str) -> ImportProgress:
        """Return the progress in a record, none for ''."""
        if not record:
            return cls()
        progress, lines, imported, first, digest = record.split(" ")
        state, _, states = progress.partition(":")
        return cls(state == "done", int(lines), int(imported), first, digest, states)

    @property
    def record(self) -> str:
        state = ("done" if self.done else "open") + (f":{self.states}" if self.states else "")
        return f"{state} {self.lines} {self.stored} {self.first or '-'} {self.digest}"


class ImportReport(NamedTuple):
    """The result of an import. imported: messages that this run wrote, also by state in the queue.

    before: messages of the file with which earlier runs were finished. left_out: messages in states not chosen.
    """

    imported: int
    before: int
    left_out: int
    states: dict[str, int]


class _Chunk(NamedTuple):
    """Messages in one state; `lines` and `digest` of the file up to their end."""

    entries: list[ImportEntry]
    lines: int
    digest: str


class Import:
    """An import into a queue. name: the queue remembers the progress under it, for a week."""

    _queue: Any

    def __init__(self, queue: Any, name: str, options: ImportOptions | None = None) -> None:
        able = tuple(name for name, each in DISCIPLINES.items() if issubclass(tools_of(each.load()), Importable))
        if queue.discipline not in able:
            raise Unsupported(queue.discipline, "import", able)
        self._queue, self.name, self._options = queue, name, options or ImportOptions()
        self._limits: PayloadLimits = self._queue.config
        self._now_ms = self._left_out = 0

    def check(self, file: ExportFile, report: Report = lambda _: None) -> ImportReport:
        """Read a file to its end and write nothing. Raises what `run` raises for it, before anything is written."""
        record, self._now_ms = tools_of(self._queue).import_progress(self.name)
        start, counts = self._start(file, ImportProgress.of(record)), Counter[str]()
        for chunk in self._chunks(file, start):
            _count(counts, chunk)
            report(file.messages)
        file.check_end("nothing was imported", edited=self._options.edited)
        return ImportReport(counts.total(), start.lines, self._left_out, dict(counts))

    def run(self, file: ExportFile, report: Report = lambda _: None) -> ImportReport:
        """Import a file, or what earlier runs left of it; `report` gets how many of its messages are done.

        Raises ImportConflict for another file than the one that was begun, or for other states of it, PayloadError for
        a message that the queue cannot store, ExportDamaged for a truncated file. What comes before in the file is
        imported then, and a later run goes on behind it.
        """
        record, self._now_ms = tools_of(self._queue).import_progress(self.name)
        progress = start = self._start(file, ImportProgress.of(record))
        counts = Counter[str]()
        for chunk in self._chunks(file, start):
            if chunk.entries:
                stored = progress.stored + len(chunk.entries)
                progress = ImportProgress(False, chunk.lines, stored, file.first, chunk.digest, start.states)
                record = self._store(record, progress, chunk.entries)
                _count(counts, chunk)
            report(file.messages)
        advice = f"its messages were imported; run this again with the whole file to import the rest, as {self.name!r}"
        file.check_end(advice, edited=self._options.edited)
        self._store(record, progress._replace(done=True, lines=file.messages, digest=file.digest.text), [])
        return ImportReport(counts.total(), start.lines, self._left_out, dict(counts))

    def forget(self) -> None:
        """Forget the progress of an import that was finished, so that the same messages can be imported again."""
        record, _ = tools_of(self._queue).import_progress(self.name)
        tools_of(self._queue).import_chunk(self.name, record, "", [])

    def _start(self, file: ExportFile, known: ImportProgress) -> ImportProgress:
        """Return the progress to go on from. After a finished import, another file is a new import."""
        states = ",".join(sorted(self._options.states or ()))
        fresh = ImportProgress(first=file.first, states=states)
        if not known.lines or (known.done and known.first != file.first):
            return fresh
        if known.first == file.first:
            if known.states == states:
                return known
            raise ImportConflict(
                f"the import {self.name!r} into {self._queue.name!r} was begun with"
                f" {known.states.replace(',', ' and ') or 'all states'} of this file; what it left out stays out under"
                " this name: repeat it with the same states, or choose another name with --as for others"
            )
        raise self._conflict(f"{known.lines:,} messages of another file were imported")

    def _chunks(self, file: ExportFile, start: ImportProgress) -> Iterator[_Chunk]:
        """Yield the messages behind those that were imported before; the last chunk may be empty."""
        some, size, self._left_out = list[ImportEntry](), 0, 0
        for line in file:
            if file.messages < start.lines:
                continue
            self._compare(file, start)
            entry = self._entry(line)
            if entry is None:
                self._left_out += 1
                continue
            if some and (len(some) == _MOST or size + entry.size > _MOST_BYTES or entry.state != some[0].state):
                yield _Chunk(some, file.messages, file.digest.text)
                some, size = [], 0
            some.append(entry)
            size += entry.size
        self._compare(file, start)
        yield _Chunk(some, file.messages, file.digest.text)

    def _compare(self, file: ExportFile, start: ImportProgress) -> None:
        """Check, where an earlier run stopped, that the file is the same up to there."""
        if file.messages < start.lines:
            raise self._conflict(f"{start.lines:,} messages were imported, and this file has only {file.messages:,}")
        if start.lines and file.messages == start.lines and file.digest.text != start.digest:
            raise self._conflict(f"{start.lines:,} messages were imported, and those of this file are others")

    def _entry(self, line: NumberedLine) -> ImportEntry | None:
        """Return what to store for a line, None to leave it out. Errors name the line."""
        message = message_of_line(line, self._limits, self._now_ms)
        try:
            if self._options.states is not None and message.state not in self._options.states:
                return None
            entry: ImportEntry = tools_of(self._queue).import_entry(message)
        except PayloadError as error:
            error.args = (f"line {line.number}: {error}",)
            raise
        return entry

    def _store(self, record: str, progress: ImportProgress, entries: list[ImportEntry]) -> str:
        if progress.record != record:
            tools_of(self._queue).import_chunk(self.name, record, progress.record, entries)
        return progress.record

    def _conflict(self, what: str) -> ImportConflict:
        return ImportConflict(
            f"the import {self.name!r} into {self._queue.name!r} was begun with another file: {what}; finish it with"
            " that file, or choose another name with --as, which imports all messages of this file"
        )


def message_of_line(line: NumberedLine, limits: PayloadLimits, now_ms: int = 0) -> StoredMessage:
    """Return the message of a line; `now_ms` is its time if it has none. Raises PayloadError, which names the line."""
    try:
        record = _object(line.text)
        if not record.get("enqueued_ms"):
            record["enqueued_ms"] = now_ms
        return message_in(record, limits)
    except PayloadError as error:
        error.args = (f"line {line.number}: {error}",)
        raise


def _object(text: bytes) -> dict[str, Any]:
    try:
        record = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"it is no JSON: {error}") from None
    if not isinstance(record, dict):
        raise PayloadError("it is no JSON object")
    return record


def _count(counts: Counter[str], chunk: _Chunk) -> None:
    if chunk.entries:
        counts[chunk.entries[0].state] += len(chunk.entries)
