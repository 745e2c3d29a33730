"""Writing failed rows back: `operation=nack` requeues their messages, `operation=dead` makes them dead letters.

The rows are those of a source, or derived from them: `message_id`, `lease` and `deliveries` identify the failed
delivery, an optional column `reason` says why. A delivery that is over, because the lease was lost or the message is
settled, is left alone. Where a lease holds several messages of one id, all of them are settled, because nothing tells
them apart. Nothing is settled before all tasks have succeeded: a settled message can no longer be read, and a retried
task reads its rows again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from rmq_core import ConfigurationError, Lease, LeasedConfig, LeasedQueue, LeaseLost, MessageRef, Unsupported
from rmq_core.reports import Outcome
from rmq_spark.place.options import Option, OptionValues, duration, one_of, text
from rmq_spark.place.source import DELIVERIES, DISCIPLINE, PLACE, Source
from rmq_spark.schema import ArrowBatch

log = logging.getLogger(__name__)

Verdict: TypeAlias = tuple[str | None, timedelta | float | None]
"""Why a message failed, and the delay before it is ready again."""
OPERATION = one_of("operation", "publish", "nack", "dead").or_else("publish")
REASON = text("reason").or_else(None)
DELAY = duration("delay", 0).or_else(None)
OPTIONS: tuple[Option[Any], ...] = (*PLACE, OPERATION, REASON, DELAY, DELIVERIES)
NAMES = ("message_id", "lease", "deliveries")
DeliveryKey: TypeAlias = tuple[str, str, int]
"""Identifies a delivery: the message, its lease, and how many deliveries it had had."""
DONE = (Outcome.SETTLED, Outcome.DEAD)


class FailedDelivery(NamedTuple):
    """One delivery that failed."""

    message_id: str
    lease: str
    deliveries: int
    reason: str | None

    @property
    def delivery(self) -> DeliveryKey:
        """Return the key of the delivery, without the reason."""
        return self[:3]


@dataclass(frozen=True)
class FailedRows(WriterCommitMessage):
    """The failed rows of a task; there should be few, because all of them pass through the driver."""

    failed: tuple[FailedDelivery, ...]


@dataclass
class RmqSettler(DataSourceArrowWriter):
    """Nack the messages of the rows it is given, or make them dead letters."""

    place: Source
    config: LeasedConfig
    reason: str | None
    delay_s: float | None

    def write(self, iterator: Iterator[ArrowBatch]) -> FailedRows:
        """Return the failed rows of one task."""
        return FailedRows(tuple(row for batch in iterator for row in self._failed(batch)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Settle, after all tasks have succeeded."""
        failed = {row.delivery: row for each in messages if isinstance(each, FailedRows) for row in each.failed}
        with LeasedQueue(self.place.settings, self.place.queue, self.config) as queue:
            settled = sum(self._settle(queue, lease, failed) for lease in {lease: None for _, lease, _ in failed})
        if settled < len(failed):
            log.warning("%d of %d deliveries are over and were left alone", len(failed) - settled, len(failed))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: the job has failed, and nothing was settled."""

    def _settle(self, queue: LeasedQueue, lease_id: str, failed: Mapping[DeliveryKey, FailedDelivery]) -> int:
        """Settle the failed deliveries that are still unsettled under a lease; return how many rows they were."""
        try:
            lease = queue.join(lease_id)
            messages = ((message, (message.id, lease_id, message.deliveries)) for message in queue.messages(lease))
            refs = {message.ref: delivery for message, delivery in messages if delivery in failed}
        except LeaseLost:
            return 0
        verdicts = {ref: (failed[delivery].reason, self.delay_s) for ref, delivery in refs.items()}
        return len({refs[ref] for ref, outcome in nack_each(queue, lease, verdicts) if outcome in DONE})

    def _failed(self, batch: ArrowBatch) -> Iterator[FailedDelivery]:
        _check_queues(batch, self.place.queue)
        ids, leases, deliveries = (batch.column(name).to_pylist() for name in NAMES)
        return map(FailedDelivery, ids, leases, deliveries, (each or self.reason for each in _column(batch, "reason")))


def settler_of(given: Mapping[str, str], schema: StructType) -> RmqSettler:
    """Return the writer for failed rows. Raises ConfigurationError or Unsupported before any job starts."""
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
    nack = options[OPERATION] == "nack"
    for option in () if nack else (DELAY, DELIVERIES):
        options.refuse(option, "operation=dead sets messages aside at once; leave it out, or use operation=nack")
    config = LeasedConfig(max_deliveries=options[DELIVERIES] if nack else 1)
    return RmqSettler(Source.of(options), config, options[REASON], options[DELAY])


def _check_queues(batch: ArrowBatch, queue: str) -> None:
    """Raise ConfigurationError for rows of another queue: their batch would ack them, as no delivery is found here."""
    for other in set(_column(batch, "queue")) - {queue, None}:
        raise ConfigurationError(
            f"option queue: rows whose column queue is {other!r} cannot be settled in {queue!r}; write the rows of"
            " each queue separately, with the option queue set to it, or pass all of them to batch.nack"
        )


def _column(batch: ArrowBatch, name: str) -> list[Any]:
    """Return the values of a column, or None for each row when the column is missing."""
    return batch.column(name).to_pylist() if name in batch.schema.names else [None] * batch.num_rows


def nack_each(
    queue: LeasedQueue, lease: Lease, verdicts: Mapping[MessageRef, Verdict]
) -> Iterator[tuple[MessageRef, Outcome]]:
    """Nack messages of a lease, with one call for all that have the same verdict; yield the outcome of each."""
    alike: defaultdict[Verdict, list[MessageRef]] = defaultdict(list)
    for ref, verdict in verdicts.items():
        alike[verdict].append(ref)
    for (reason, delay), refs in alike.items():
        yield from zip(refs, queue.nack(lease, refs, reason=reason, delay=delay).outcomes, strict=True)
