"""What a worker notes for the history of its queue: fetched, finished, failed and requeued jobs. It sends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from rmq_core.discipline.jobs.operations.working import Delivery
from rmq_core.events import Operation
from rmq_core.queue.tally import Tally


class WorkerCounts:
    """Counts the jobs of a worker, and the time from their fetch to their ack. Notes nothing without a tally."""

    def __init__(self, tally: Tally | None) -> None:
        self._tally = tally
        self._since: dict[str, float] = {}

    def fetched(self, deliveries: Sequence[Delivery]) -> None:
        """Count jobs that the worker holds from now on; some of them were taken from silent workers."""
        if self._tally is None or not deliveries:
            return
        self._since.update(dict.fromkeys([one.entry for one in deliveries], monotonic()))
        self._tally.noted.append((Operation.CLAIM, len(deliveries)))
        if reclaimed := sum([one.before > 0 for one in deliveries]):
            self._tally.noted.append((Operation.RECLAIM, reclaimed))

    def acked(self, entries: Sequence[str]) -> None:
        """Count jobs whose acks have arrived together. The first and the last are measured, each for half of them."""
        if self._tally is None or not entries:
            return
        first, last = (self._span(entries[place]) for place in (0, -1))
        half = len(entries) // 2
        self._tally.noted.append((Operation.ACK, len(entries) - half, first))
        if half:
            self._tally.noted.append((Operation.ACK, half, last))
        self._forget(entries)

    def failed(self, entry: str, outcome: bytes) -> None:
        """Count a failed job, which waits for its retry or is dead; not one that another worker holds."""
        if self._tally is not None and outcome != b"gone":
            self._tally.noted.append((Operation.NACK, 1, self._span(entry)))
            if outcome == b"dead":
                self._tally.noted.append((Operation.DEAD, 1))
        self._forget([entry])

    def requeued(self, entries: Sequence[str], count: int) -> None:
        """Count jobs that were returned without being begun."""
        if self._tally is not None and count:
            self._tally.noted.append((Operation.RELEASE, count))
        self._forget(entries)

    def _span(self, entry: str) -> float:
        now = monotonic()
        return now - self._since.get(entry, now)

    def _forget(self, entries: Sequence[str]) -> None:
        for entry in entries:
            self._since.pop(entry, None)
