"""Messages of a batch that failed by themselves, each with its reason: nacked when the block ends, the others acked.

Settling waits for the end because what is settled is no longer read: `df`, whose slices are planned, would raise. It
also leaves a driver that dies in its block nothing half done. They are settled in all leases before any is acked: a
retry of a driver that died among them gets the messages that are not settled yet, and judges anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import chain
from typing import TypeAlias

from pyspark.sql import Column, DataFrame

from rmq_core import ConfigurationError, Lease, LeaseLost, MessageRef, Outcome
from rmq_spark.batch.held import HeldLease

Verdict: TypeAlias = tuple[str | None, timedelta | float | None]
"""Why a message failed, and the delay before it is ready again."""


class Verdicts:
    """The failed messages of a batch. The last verdict on a message counts."""

    def __init__(self, held: Sequence[HeldLease]) -> None:
        self._held = held
        self._failed: dict[MessageRef, Verdict] = {}

    def add(self, failed: DataFrame, reason: str | Column | None, delay: timedelta | float | None) -> int:
        """Note the messages that the rows of `failed` name; how many there are. Raises ConfigurationError."""
        reasons = reasons_of(failed, reason)
        messages = chain.from_iterable(queue.messages(lease) for queue, lease in self._held)
        refs = [message.ref for message in messages if message.id in reasons]
        strangers = reasons.keys() - {ref.id for ref in refs}
        if strangers:
            raise ConfigurationError(
                f"failed: {len(strangers)} of its {len(reasons)} message ids are not of this batch, such as"
                f" {min(strangers)!r}; take the rows from `batch.df`"
            )
        self._failed.update({ref: (reasons[ref.id], delay) for ref in refs})
        return len(refs)

    def settle_all(self) -> None:
        """Nack those of all leases. Raises LeaseLost; those of the leases behind it are not settled then."""
        for each in self._held:
            self.settle(each)

    def settle(self, held: HeldLease) -> None:
        """Nack those of one lease, unless that has been done. Raises LeaseLost."""
        queue, lease = held
        if lease.fate.settled:
            return
        for (reason, delay), refs in _by_verdict(self._of(lease)).items():
            report = queue.nack(lease, refs, reason=reason, delay=delay)
            if Outcome.LOST in report.outcomes:
                raise LeaseLost(lease.id)

    def _of(self, lease: Lease) -> dict[MessageRef, Verdict]:
        return {ref: verdict for ref, verdict in self._failed.items() if ref.lease_id == lease.id}


def reasons_of(failed: DataFrame, reason: str | Column | None) -> dict[str, str | None]:
    """The reason of each message id in a DataFrame, which this evaluates. Raises ConfigurationError."""
    if "message_id" not in failed.columns:
        raise ConfigurationError(f"failed has no column message_id, only {', '.join(failed.columns)}: keep it in there")
    if reason is None or isinstance(reason, str):
        return {row.message_id: reason for row in failed.select("message_id").collect()}
    rows = failed.select("message_id", reason.cast("string").alias("reason")).collect()
    return {row.message_id: row.reason for row in rows}


def _by_verdict(failed: Mapping[MessageRef, Verdict]) -> Mapping[Verdict, Iterable[MessageRef]]:
    """One call for all messages with the same verdict."""
    found: defaultdict[Verdict, list[MessageRef]] = defaultdict(list)
    for ref, verdict in failed.items():
        found[verdict].append(ref)
    return found
