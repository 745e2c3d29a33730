"""What both kinds of tables have in common: look whether a batch is in the log, and append it if it is not.

The order is fixed: look, compute, look again, write through the handle that was looked at. A writer that looked before
another one committed the same batch gets a conflict, and looks again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rmq_core import ConfigurationError, RedisMessageQueueError
from rmq_spark.tables.names import BatchName

if TYPE_CHECKING:
    import pyarrow as pa

TRIES = 20
PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
InDoubt: TypeAlias = Callable[[bool], object]


class TableConflict(RedisMessageQueueError):
    """Other writers changed the table each time the batch was about to be committed."""


class TableNotFound(ConfigurationError):
    """The table does not exist."""


class CommitConflict(Exception):
    """Another writer committed first, and nothing was written."""


class TableLog(Protocol):
    """A table, seen by one writer."""

    name: str

    def remembers(self, names: Sequence[BatchName]) -> bool:
        """Load the newest version of the table; return whether it has a batch of these names."""

    def commit(self, names: Sequence[BatchName], rows: pa.Table) -> None:
        """Append rows and names in one step to the version that was looked at. Raises CommitConflict."""


def log_of(table: Any) -> TableLog:
    """Return the log of a table. Raises ConfigurationError for another object, or for a package that is missing."""
    package = "deltalake" if isinstance(table, str | Path) else type(table).__module__.partition(".")[0]
    if package == "deltalake":
        from rmq_spark.tables.delta import DeltaLog  # needs an extra

        return DeltaLog(table)
    if package == "pyiceberg":
        from rmq_spark.tables.iceberg import IcebergLog  # needs an extra

        return IcebergLog(table)
    raise ConfigurationError(
        "table must be the path or URI of a Delta table, a deltalake.DeltaTable or a pyiceberg Table, not"
        f" {type(table).__name__}"
    )


def append_under(names: Sequence[BatchName], log: TableLog, rows: Callable[[], pa.Table], in_doubt: InDoubt) -> bool:
    """Append the rows unless the log has a batch of these names; return whether this call appended them.

    rows: computes them, and is called only if the log does not have the batch. in_doubt: called with True as soon as
    the table may have the rows, and with False when it turns out that it does not have them.
    """
    if _found(log, names, in_doubt):
        return False
    computed = rows()
    for number in range(TRIES):
        if _found(log, names, in_doubt):
            return False
        try:
            _commit(log, names, computed, in_doubt)
        except CommitConflict:
            time.sleep(random.uniform(0, min(LONGEST_PAUSE_S, PAUSE_S * 2**number)))
        else:
            return True
    if _found(log, names, in_doubt):
        return False
    raise TableConflict(
        f"table {log.name}: other writers committed first, {TRIES} times; nothing was appended. Retry the batch, or let"
        " fewer writers commit to this table at a time"
    )


def _found(log: TableLog, names: Sequence[BatchName], in_doubt: InDoubt) -> bool:
    found = log.remembers(names)
    if found:
        in_doubt(True)
    return found


def _commit(log: TableLog, names: Sequence[BatchName], rows: pa.Table, in_doubt: InDoubt) -> None:
    """Commit. After an error, the log tells whether the commit has happened, unless it cannot be read either."""
    in_doubt(True)
    try:
        log.commit(names, rows)
    except CommitConflict:
        in_doubt(False)
        raise
    except Exception:
        if log.remembers(names):
            return
        in_doubt(False)
        raise
