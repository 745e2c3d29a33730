"""What Delta and Iceberg tables share: the names of batches in a table's log, and appending a batch that is not in it.

A name is `consumer/stream` and a number, or the name of a claim. Names are not fences: a takeover of a lease raises its
fence, although the messages are the same. The order of an append is fixed: look, compute, look again, write through the
handle that was looked at. A writer that looked before another one committed the same batch gets a conflict, and looks
again.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from pyspark.sql import DataFrame

from rmq_core import ConfigurationError, RedisMessageQueueError
from rmq_spark.batch.claimed import ClaimedBatch

if TYPE_CHECKING:
    import pyarrow as pa

Messages: TypeAlias = ClaimedBatch | DataFrame
"""A batch of `claimed_batch` or `adopted_batch`, or the DataFrame that a stream passes to `foreachBatch`."""
OF_A_STREAM = re.compile(r"(.+/[0-9a-f]{32})/(\d+)", re.DOTALL)


class BatchName(NamedTuple):
    """A name in a table's log. The log remembers the latest version of each id.

    id: `consumer/stream` of a stream, or `ClaimedBatch.name`. version: the number of the stream's batch; 0 for a claim.
    """

    id: str
    version: int


def batch_names(batch: Messages) -> tuple[BatchName, ...]:
    """Return the name of a batch, or of each stream with messages in a union of streams; none if it has no messages.

    For a stream, this reads the first message of each slice. Raises ConfigurationError when the DataFrame lacks the
    column `lease`, or is no stream's.
    """
    if isinstance(batch, ClaimedBatch):
        return (BatchName(batch.name, 0),) if batch else ()
    if not isinstance(batch, DataFrame):
        raise ConfigurationError(
            f"batch must be the batch of claimed_batch or adopted_batch, or the DataFrame that foreachBatch gets, not"
            f" {type(batch).__name__}"
        )
    if "lease" not in batch.columns:
        raise ConfigurationError(
            f"batch has no column lease, only {', '.join(batch.columns)}: pass the messages as the source returned"
            " them, and their transformation as `rows`"
        )
    return tuple(sorted(map(_name_of, _leases_of(batch))))


def _name_of(lease_id: str) -> BatchName:
    found = OF_A_STREAM.fullmatch(lease_id)
    if found is None:
        raise ConfigurationError(
            f"batch: lease {lease_id!r} is not of a stream: pass the batch of claimed_batch itself, not its DataFrame"
        )
    return BatchName(found[1], int(found[2]))


def _leases_of(messages: DataFrame) -> set[str]:
    """Return the ids of all leases with messages. A slice has messages of one lease, so its first one is enough."""

    # A nested function is pickled by value: executors may lack this package.
    def first(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield batch.slice(0, 1)
                return

    leases = messages.select("lease")
    return {row.lease for row in leases.mapInArrow(first, leases.schema).collect()}


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
