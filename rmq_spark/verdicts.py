"""Messages of a batch that failed by themselves, each with its reason: nacked when the block ends, the others acked.

Settling waits for the end because what is settled is no longer read: `df`, whose slices are planned, would raise. It
also leaves a driver that dies meanwhile nothing half done: a retry gets all the messages again and judges anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TypeAlias

from pyspark.sql import Column, DataFrame

from rmq_core import ConfigurationError, Lease, LeasedQueue, LeaseLost, MessageRef, Outcome

Verdict: TypeAlias = tuple[str | None, timedelta | float | None]
"""Why a message failed, and the delay before it is ready again."""


class Verdicts:
    """The failed messages of one lease. The last verdict on a message counts."""

    def __init__(self, queue: LeasedQueue, lease: Lease) -> None:
        self._queue = queue
        self._lease = lease
        self._failed: dict[MessageRef, Verdict] = {}

    def add(self, failed: DataFrame, reason: str | Column | None, delay: timedelta | float | None) -> int:
        """Note the messages that the rows of `failed` name; how many there are. Raises ConfigurationError."""
        reasons = reasons_of(failed, reason)
        refs = [message.ref for message in self._queue.messages(self._lease) if message.id in reasons]
        strangers = reasons.keys() - {ref.id for ref in refs}
        if strangers:
            raise ConfigurationError(
                f"failed: {len(strangers)} of its {len(reasons)} message ids are not of this batch, such as"
                f" {min(strangers)!r}; take the rows from `batch.df`"
            )
        self._failed.update({ref: (reasons[ref.id], delay) for ref in refs})
        return len(refs)

    def settle(self) -> None:
        """Nack them. Raises LeaseLost."""
        for (reason, delay), refs in _by_verdict(self._failed).items():
            report = self._queue.nack(self._lease, refs, reason=reason, delay=delay)
            if Outcome.LOST in report.outcomes:
                raise LeaseLost(self._lease.id)


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
