"""Writing failed rows back: `operation=nack` returns their messages to the queue, `operation=dead` sets them aside.

The rows are those of a source, or made of them: `message_id`, `lease` and `deliveries` say which delivery failed, an
optional column `reason` says why. A delivery that is over by now, because the lease was lost or the message is settled,
is left alone; where a lease holds several messages of one id, all of them are settled, for nothing tells them apart.
Nothing is settled before all tasks have succeeded: what is settled is no longer read, and a task that is tried again
reads its rows again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rmq_core import (
    ConfigurationError,
    Lease,
    LeasedConfig,
    LeasedQueue,
    LeaseLost,
    MessageRef,
    Outcome,
    Unsupported,
)
from rmq_spark.place.options import Option, OptionValues, duration, one_of, text
from rmq_spark.place.source import DELIVERIES, DISCIPLINE, PLACE, Source

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
log = logging.getLogger(__name__)

OPERATION = one_of("operation", "publish", "nack", "dead").or_else("publish")
REASON = text("reason").or_else(None)
DELAY = duration("delay", 0).or_else(None)
OPTIONS: tuple[Option[Any], ...] = (*PLACE, OPERATION, REASON, DELAY, DELIVERIES)
NAMES = ("message_id", "lease", "deliveries")
DONE = (Outcome.SETTLED, Outcome.DEAD)


class FailedDelivery(NamedTuple):
    """One delivery that failed."""

    message_id: str
    lease: str
    deliveries: int
    reason: str | None

    @property
    def delivery(self) -> tuple[str, str, int]:
        """Which one, whatever the reason."""
        return self[:3]


@dataclass(frozen=True)
class FailedRows(WriterCommitMessage):
    """What a task found failed; few rows, for they all pass through the driver."""

    failed: tuple[FailedDelivery, ...]


class RmqSettler(DataSourceArrowWriter):
    """Nacks the messages of the rows it is given, or makes them dead letters."""

    def __init__(self, place: Source, max_deliveries: int, reason: str | None, delay_s: float | None) -> None:
        self._place = place
        self._config = LeasedConfig(max_deliveries=max_deliveries)
        self._reason = reason
        self._delay_s = delay_s

    def write(self, iterator: Iterator[pa.RecordBatch]) -> FailedRows:
        """The rows of one task."""
        return FailedRows(tuple(row for batch in iterator for row in self._failed(batch)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """All tasks have succeeded: settle."""
        rows = [row for each in messages if isinstance(each, FailedRows) for row in each.failed]
        failed = {row.delivery: row for row in rows}.values()
        with LeasedQueue(self._place.settings, self._place.queue, self._config) as queue:
            settled = sum(self._settle(queue, lease, rows) for lease, rows in _by(failed, lambda row: row.lease))
        if settled < len(failed):
            log.warning("%d of %d deliveries are over and were left alone", len(failed) - settled, len(failed))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """The job has failed; nothing was settled."""

    def _settle(self, queue: LeasedQueue, lease_id: str, rows: Iterable[FailedDelivery]) -> int:
        """Settle what still is under a lease; of how many rows that was."""
        try:
            lease = queue.join(lease_id)
            found = list(_found(queue, lease, rows))
        except LeaseLost:
            return 0
        settled: set[FailedDelivery] = set()
        for reason, some in _by(found, lambda each: each[0].reason):
            refs = [ref for _, ref in some]
            report = queue.nack(lease, refs, reason=reason, delay=self._delay_s)
            settled |= {row for (row, _), outcome in zip(some, report.outcomes, strict=True) if outcome in DONE}
        return len(settled)

    def _failed(self, batch: pa.RecordBatch) -> Iterator[FailedDelivery]:
        _check_queues(batch, self._place.queue)
        ids, leases, deliveries = (batch.column(name).to_pylist() for name in NAMES)
        return map(FailedDelivery, ids, leases, deliveries, (each or self._reason for each in _column(batch, "reason")))


def settler_of(given: Mapping[str, str], schema: StructType) -> RmqSettler:
    """The writer for failed rows. Raises ConfigurationError or Unsupported before any job starts."""
    options = OptionValues(given, OPTIONS)
    if options[DISCIPLINE] != "leased":
        raise Unsupported(
            options[DISCIPLINE], f"writing back of failed rows (operation={options[OPERATION]})", ("leased",)
        )
    missing = [name for name in NAMES if name not in schema.names]
    if missing:
        raise ConfigurationError(
            f"option operation: {options[OPERATION]} needs the columns {', '.join(NAMES)} of a source of"
            f' format("rmq"); {missing[0]} is missing'
        )
    return RmqSettler(Source.of(options), _max_deliveries(options), options[REASON], options[DELAY])


def _max_deliveries(options: OptionValues) -> int:
    if options[OPERATION] == "nack":
        return options[DELIVERIES]
    for option in (DELAY, DELIVERIES):
        options.refuse(option, "operation=dead sets messages aside at once; leave it out, or use operation=nack")
    return 1


def _check_queues(batch: pa.RecordBatch, queue: str) -> None:
    """Refuse rows of another queue: nothing would be found for them, and their batch would ack what failed."""
    for other in set(_column(batch, "queue")) - {queue, None}:
        raise ConfigurationError(
            f"option queue: rows whose column queue is {other!r} cannot be settled in {queue!r}; write those of each"
            " queue by themselves, with the option queue set to it, or give all of them to batch.nack"
        )


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    """The values of a column that need not be there."""
    return batch.column(name).to_pylist() if name in batch.schema.names else [None] * batch.num_rows


def _found(
    queue: LeasedQueue, lease: Lease, rows: Iterable[FailedDelivery]
) -> Iterator[tuple[FailedDelivery, MessageRef]]:
    """Where the messages are leased, as far as this delivery of them still goes on."""
    wanted = {row.delivery: row for row in rows}
    for message in queue.messages(lease):
        row = wanted.get((message.id, lease.id, message.deliveries))
        if row is not None:
            yield row, message.ref


def _by(rows: Iterable[T], key: Callable[[T], str | None]) -> Iterable[tuple[Any, list[T]]]:
    groups: defaultdict[str | None, list[T]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups.items()
