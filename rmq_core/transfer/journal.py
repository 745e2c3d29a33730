"""Writes the journal of a queue to a file, page by page: NDJSON, or Parquet with pyarrow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from rmq_core.errors import ConfigurationError, Unsupported
from rmq_core.queue.journal import JournalEntry, moment

# pyarrow takes 300 ms to load, and the extra `parquet` may be missing

COLUMNS = (
    "entry_id", "at", "queue", "event", "messages", "message_ids", "lease_id", "fence", "owner", "by", "reason",
)  # fmt: skip
"""The columns of a row, which is an entry of the journal. A text that an entry does not have is null."""
Row: TypeAlias = Mapping[str, Any]
Write: TypeAlias = Callable[[Sequence[Row]], None]
FORMATS = {".parquet": "parquet", ".ndjson": "ndjson", ".jsonl": "ndjson"}
_MOST_ROWS, _MOST_IDS = 10_000, 100_000  # of a row group


class JournalExport:
    """One export. `rows` counts, and `last` is the id of the last entry, for the `after` of the next export.

    after: the id of the last entry that is not wanted; None for all entries. Entries that are written while the export
    runs are left out. Raises Unsupported for a discipline without a journal.
    """

    def __init__(self, queue: Any, *, after: str | None = None) -> None:
        if not hasattr(queue, "read_journal"):
            raise Unsupported(queue.discipline, "journal", ("leased",))
        self._queue, self.last, self.rows = queue, after, 0

    def pages(self) -> Iterator[list[Row]]:
        """Yield the rows, oldest first, a page at a time."""
        until = None
        while True:
            page = self._queue.read_journal(after=self.last, until=until)
            if page.entries:
                self.rows, self.last = self.rows + len(page.entries), page.entries[-1].entry_id
                yield [row_of(self._queue.name, entry) for entry in page.entries]
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
    """Return an entry of a journal as a row."""
    return {
        "entry_id": entry.entry_id, "at": moment(entry.at_ms), "queue": queue, "event": entry.event,
        "messages": entry.messages, "message_ids": list(entry.ids), "lease_id": entry.lease_id or None,
        "fence": int(entry.fence) if entry.fence else None, "owner": entry.owner or None, "by": entry.by or None,
        "reason": entry.detail or None,
    }  # fmt: skip


def format_of(path: Path) -> str:
    """Return the format that the name of a file stands for. Raises ConfigurationError for any other name."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise ConfigurationError(f"the name of the file must end in {', '.join(FORMATS)}, not {path.name!r}") from None


@contextmanager
def into_file(path: Path) -> Iterator[Write]:
    """Return what writes rows to a file. It has its name only once it is complete.

    Raises ConfigurationError if the file exists, or has no name for a format, or pyarrow is missing.
    """
    writing = into_parquet if format_of(path) == "parquet" else into_lines
    if path.exists():
        raise ConfigurationError(f"{path} exists: name another file, for the journal may not go back that far any more")
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file, writing(file) as write:
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


@contextmanager
def into_parquet(file: BinaryIO) -> Iterator[Write]:
    """Return what writes rows as Parquet, in row groups of at most about 10,000 rows and 100,000 message ids."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ModuleNotFoundError as missing:
        raise ConfigurationError(
            "a Parquet file needs pyarrow; install it with: pip install 'rmq[parquet]'"
        ) from missing
    schema = _schema(pa)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        groups = _Groups(lambda rows: writer.write_table(pa.Table.from_pylist(rows, schema)))
        yield groups.write
        groups.end()


class _Groups:
    """Collects rows until they make a row group, so that a file has few of them and memory stays flat."""

    def __init__(self, flush: Callable[[list[Row]], None]) -> None:
        self._flush, self._rows, self._ids = flush, list[Row](), 0

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._rows.append(row)
            self._ids += len(row["message_ids"])
            if len(self._rows) >= _MOST_ROWS or self._ids >= _MOST_IDS:
                self.end()

    def end(self) -> None:
        if self._rows:
            self._flush(self._rows)
        self._rows, self._ids = [], 0


def _schema(pa: Any) -> Any:
    types = {"at": pa.timestamp("ms", tz="UTC"), "messages": pa.int64(), "fence": pa.int64()}
    types["message_ids"] = pa.list_(pa.string())
    return pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])
