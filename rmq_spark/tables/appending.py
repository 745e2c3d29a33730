"""`append_once` for a batch of `claimed_batch`, and for the micro-batches of a stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import DataFrame

from rmq_core import ConfigurationError
from rmq_spark.batch.claimed import ClaimedBatch
from rmq_spark.runtime.shipping import reduced_with_package
from rmq_spark.tables.log import Messages, TableLog, append_under, batch_names

if TYPE_CHECKING:
    import pyarrow as pa

Rows: TypeAlias = DataFrame | Callable[[DataFrame], DataFrame]


def append_once(batch: Messages, table: Any, rows: Rows | None = None) -> bool:
    """Append the rows of a batch to a table, unless its log has the batch; return whether this call appended them.

    batch: what `claimed_batch` or `adopted_batch` yields, or the DataFrame that a stream passes to `foreachBatch`.
    table: the path or URI of a Delta table, a `deltalake.DeltaTable` (extra `rmq[delta]`), or a `pyiceberg` Table
    (extra `rmq[iceberg]`). rows: a DataFrame, or a function of the messages that returns one; by default the messages
    themselves. It is evaluated only if the log does not have the batch, and passes through the driver's memory.

    From then on a block of `claimed_batch` that fails keeps its lease, whatever its policy: nacked messages would come
    back under another name and be appended again. Call `batch.nack` in the block itself, not in `rows`, so that a
    repeated block calls it too. Raises LeaseLost, TableNotFound, TableConflict when other writers commit all the time,
    and ConfigurationError for a wrong argument or a missing extra.
    """
    names = batch_names(batch)
    if not names:
        return False
    return append_under(names, log_of(table), partial(_computed, batch, rows), partial(_keep, batch))


def appended(batch: Messages, table: Any) -> bool:
    """Return whether the table's log has the batch, for blocks that compute before they append. Raises as append_once.

    If so, call `append_once` nevertheless: it appends nothing, and lets a failing block keep its lease.
    """
    names = batch_names(batch)
    return bool(names) and log_of(table).remembers(names)


def appender(table: Any, rows: Callable[[DataFrame], DataFrame] | None = None) -> Callable[[DataFrame, int], None]:
    """Return a function for `writeStream.foreachBatch` that appends each micro-batch once. Arguments as append_once.

    Over Spark Connect the function runs on the server, which needs the table's library and the dependencies of RMQ, but
    not RMQ.
    """
    return _Appender(table, rows)


class _Appender:
    """The function that `appender` returns."""

    def __init__(self, table: Any, rows: Callable[[DataFrame], DataFrame] | None) -> None:
        self.table, self.rows = table, rows

    def __call__(self, messages: DataFrame, _: int) -> None:
        append_once(messages, self.table, self.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced_with_package(self)


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


def _computed(batch: Messages, rows: Rows | None) -> pa.Table:
    """Evaluate the rows. Raises LeaseLost when the lease was lost meanwhile: others work on the messages."""
    messages = batch.df if isinstance(batch, ClaimedBatch) else batch
    frame = messages if rows is None else rows if isinstance(rows, DataFrame) else rows(messages)
    found = _in_utc(frame.toArrow())
    if isinstance(batch, ClaimedBatch):
        batch.check()
    return found


def _in_utc(rows: pa.Table) -> pa.Table:
    """Return the rows with times in UTC: Spark uses the time zone of the session, and Iceberg accepts only UTC."""
    import pyarrow as pa  # takes 300 ms, which only appending needs

    fields = [
        field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) and field.type.tz else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def _keep(batch: Messages, keep: bool) -> None:
    if isinstance(batch, ClaimedBatch) and batch.verdicts is not None:
        batch.verdicts.keep = keep
