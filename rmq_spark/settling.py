"""Writing failed rows back: `operation=nack` returns their messages to the queue, `operation=dead` sets them aside.

The rows are those of a source, or made of them: `message_id`, `lease` and `deliveries` say which delivery failed, an
optional column `reason` says why. A delivery that is over by now, because the lease was lost or the message is settled,
is left alone. Nothing is settled before all tasks have succeeded: what is settled is no longer read, and a task that is
tried again reads its rows again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rmq_core import ConfigurationError, Lease, LeasedConfig, LeasedQueue, LeaseLost, MessageRef
from rmq_spark.options import Option, Options, duration, one_of, text
from rmq_spark.source import PLACE, Source

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

OPERATION = one_of("operation", "publish", "nack", "dead").or_else("publish")
REASON = text("reason").or_else(None)
DELAY = duration("delay", 0).or_else(None)
OPTIONS: tuple[Option[Any], ...] = (*PLACE, OPERATION, REASON, DELAY)
NAMES = ("message_id", "lease", "deliveries")


class Failed(NamedTuple):
    """One delivery that failed."""

    message_id: str
    lease: str
    deliveries: int
    reason: str | None


@dataclass(frozen=True)
class Verdicts(WriterCommitMessage):
    """What a task found failed; few rows, for they all pass through the driver."""

    failed: tuple[Failed, ...]


class RmqSettler(DataSourceArrowWriter):
    """Nacks the messages of the rows it is given, or makes them dead letters."""

    def __init__(self, place: Source, operation: str, reason: str | None, delay_s: float | None) -> None:
        self._place = place
        self._config = LeasedConfig(max_deliveries=1) if operation == "dead" else LeasedConfig()
        self._reason = reason
        self._delay_s = delay_s

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Verdicts:
        """The rows of one task."""
        return Verdicts(tuple(row for batch in iterator for row in _failed(batch, self._reason)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks have succeeded: settle."""
        failed = [row for each in messages if isinstance(each, Verdicts) for row in each.failed]
        with LeasedQueue(self._place.settings, self._place.queue, self._config) as queue:
            settled = sum(self._settle(queue, lease, rows) for lease, rows in _by(failed, lambda row: row.lease))
        if settled < len(set(failed)):
            log.warning("%d of %d deliveries are over and were left alone", len(set(failed)) - settled, len(failed))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """The job has failed; nothing was settled."""

    def _settle(self, queue: LeasedQueue, lease_id: str, rows: Iterable[Failed]) -> int:
        try:
            lease = queue.join(lease_id)
            found = dict(_found(queue, lease, frozenset(rows)))
        except LeaseLost:
            return 0
        return sum(
            queue.nack(lease, [found[row] for row in some], reason=reason, delay=self._delay_s).settled
            for reason, some in _by(found, lambda row: row.reason)
        )


def settler_of(given: Mapping[str, str], schema: StructType) -> RmqSettler:
    """The writer for failed rows. Raises ConfigurationError before any job starts."""
    options = Options(given, OPTIONS)
    missing = [name for name in NAMES if name not in schema.names]
    if missing:
        raise ConfigurationError(
            f"option operation: {options[OPERATION]} needs the columns {', '.join(NAMES)} of a source of"
            f' format("rmq"); {missing[0]} is missing'
        )
    return RmqSettler(Source.of(options), options[OPERATION], options[REASON], options[DELAY])


def _failed(batch: pa.RecordBatch, reason: str | None) -> Iterator[Failed]:
    ids, leases, deliveries = (batch.column(name).to_pylist() for name in NAMES)
    own = batch.column("reason").to_pylist() if "reason" in batch.schema.names else [None] * batch.num_rows
    return map(Failed, ids, leases, deliveries, (each or reason for each in own))


def _found(queue: LeasedQueue, lease: Lease, rows: frozenset[Failed]) -> Iterator[tuple[Failed, MessageRef]]:
    """Where the messages are leased, as far as this delivery of them still goes on."""
    wanted = {row[:3]: row for row in rows}
    for message in queue.messages(lease):
        row = wanted.get((message.id, lease.id, message.deliveries))
        if row is not None:
            yield row, message.ref


def _by(rows: Iterable[Failed], key: Any) -> Iterable[tuple[Any, list[Failed]]]:
    groups: defaultdict[Any, list[Failed]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups.items()
