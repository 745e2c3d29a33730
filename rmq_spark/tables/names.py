"""The names under which a table's log remembers batches: `consumer/stream` and number, or the name of a claim.

They are not fences: a takeover of a lease raises its fence, although the messages are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyspark.sql import DataFrame

from rmq_core import ConfigurationError
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
