"""Apache Iceberg through `pyiceberg`: table properties, set in the transaction that appends the rows.

The summary of a snapshot would be forgotten by `expire_snapshots`; properties are not. Each id has one property, with
the latest version and the time of its commit. An append removes the properties that are older than a week, or than the
table property `rmq.remember-for-ms`.

After a conflict, pyiceberg would append the same data files to the new version of the table by itself, even if another
writer has committed the same batch meanwhile. So its retries are switched off, in the handle that writes and not in the
table, whose other writers need theirs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import TableProperties

from rmq_spark.tables.log import BatchName, CommitConflict, TableNotFound

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

PREFIX = "rmq.appended."
REMEMBER_FOR = "rmq.remember-for-ms"
A_WEEK_MS = 7 * 24 * 3600 * 1000  # as long as RMQ keeps the record of an acked lease


class IcebergLog:
    """An Iceberg table, opened by the caller from its catalog; the caller's handle is left as it is."""

    def __init__(self, table: Table) -> None:
        self._given = table
        self._table = table
        self.name = ".".join(table.name())

    def remembers(self, names: Sequence[BatchName]) -> bool:
        try:
            self._table = self._given.catalog.load_table(self._given.name())
        except NoSuchTableError as error:
            raise TableNotFound(
                f"there is no Iceberg table {self.name} any more: create it with catalog.create_table(…)"
            ) from error
        return any(_version(self._table.properties, each.id) >= each.version for each in names)

    def commit(self, names: Sequence[BatchName], rows: pa.Table) -> None:
        now_ms = time.time_ns() // 1_000_000
        self._table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        try:
            with self._table.transaction() as transaction:
                transaction.append(rows)
                transaction.remove_properties(*_old(self._table.properties, now_ms, names))
                transaction.set_properties({PREFIX + each.id: f"{each.version} {now_ms}" for each in names})
        except CommitFailedException as conflict:
            raise CommitConflict from conflict


def _version(properties: Mapping[str, str], batch_id: str) -> int:
    version, _, _ = properties.get(PREFIX + batch_id, "-1").partition(" ")
    return int(version)


def _old(properties: Mapping[str, str], now_ms: int, names: Sequence[BatchName]) -> Iterator[str]:
    """Yield the properties of batches that were appended too long ago for a retry; not those of `names`."""
    since_ms = now_ms - int(properties.get(REMEMBER_FOR, A_WEEK_MS))
    current = {PREFIX + each.id for each in names}
    for key, value in properties.items():
        if key.startswith(PREFIX) and key not in current and int(value.partition(" ")[2]) < since_ms:
            yield key
