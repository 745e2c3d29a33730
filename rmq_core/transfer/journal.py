"""Writes the journal of a queue to a file of NDJSON, page by page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from rmq_core.errors import ConfigurationError
from rmq_core.queue.journal import JournalEntry, moment

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
