"""Delta Lake through `deltalake`: application transactions, which the log keeps through checkpoints and vacuum.

delta-rs never skips a version that was committed before, and even accepts a lower one. It only refuses a commit when
the id was committed after the version of the handle. So the handle that was looked at has to be the one that writes: a
path would be loaded again, and a commit in between would go unnoticed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rmq_core import ConfigurationError
from rmq_spark.tables.log import BatchName, CommitConflict, TableNotFound

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, TableNotFoundError
except ImportError as missing:
    raise ConfigurationError("Delta tables need an extra; install it with: pip install 'rmq[delta]'") from missing


class DeltaLog:
    """A Delta table, by its path or URI, or opened by the caller, for example with `storage_options`."""

    def __init__(self, table: DeltaTable | str | Path) -> None:
        uri, options = (table, None) if isinstance(table, str | Path) else (table.table_uri, table._storage_options)  # noqa: SLF001  no public name
        self._table = _opened(uri, options)  # our own: another thread may reload the caller's between look and commit
        self.name = self._table.table_uri

    def remembers(self, names: Sequence[BatchName]) -> bool:
        self._table.update_incremental()
        found = [(self._table.transaction_version(each.id), each.version) for each in names]
        return any(last is not None and last >= version for last, version in found)

    def commit(self, names: Sequence[BatchName], rows: pa.Table) -> None:
        now_ms = time.time_ns() // 1_000_000  # entries with a time are forgotten when the table's properties say so
        transactions = [Transaction(each.id, each.version, now_ms) for each in names]
        properties = CommitProperties(app_transactions=transactions)
        try:
            write_deltalake(self._table, rows, mode="append", commit_properties=properties)
        except CommitFailedError as conflict:
            raise CommitConflict from conflict


def _opened(table: str | Path, options: dict[str, str] | None) -> DeltaTable:
    try:
        return DeltaTable(table, storage_options=options)
    except TableNotFoundError as error:
        raise TableNotFound(
            f"there is no Delta table at {str(table)!r}: create it first, with"
            " deltalake.DeltaTable.create(path, rows.schema, mode='ignore')"
        ) from error
