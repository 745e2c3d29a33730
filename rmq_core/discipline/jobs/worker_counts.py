"""What a worker states for the history of its queue: fetched, finished, failed and requeued jobs. It sends nothing."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from rmq_core.discipline.jobs.operations.working import Delivery
from rmq_core.events import Operation
from rmq_core.observe.fact import Observer


class WorkerCounts:
    """Counts the jobs of a worker, and the time from their fetch to their ack. Does nothing without a history."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._since: dict[str, float] = {}

    def fetched(self, deliveries: Sequence[Delivery]) -> None:
        """Count jobs that the worker holds from now on; some of them were taken from silent workers."""
        if self._observer.tally is None or not deliveries:
            return
        self._since.update(dict.fromkeys([one.entry for one in deliveries], monotonic()))
        self._observer.state(Operation.CLAIM, len(deliveries))
        self._observer.state(Operation.RECLAIM, sum([one.before > 0 for one in deliveries]))

    def acked(self, entries: Sequence[str]) -> None:
        """Count jobs whose acks have arrived together. The first and the last are measured, each for half of them."""
        if self._observer.tally is None or not entries:
            return
        first, last = (self._span(entries[place]) for place in (0, -1))
        half = len(entries) // 2
        self._observer.state(Operation.ACK, len(entries) - half, seconds=first)
        self._observer.state(Operation.ACK, half, seconds=last)
        self._forget(entries)

    def failed(self, entry: str, outcome: bytes) -> None:
        """Count a failed job, which waits for its retry or is dead; not one that another worker holds."""
        self._observer.state(Operation.NACK, int(outcome != b"gone"), seconds=self._span(entry))
        self._observer.state(Operation.DEAD, int(outcome == b"dead"))
        self._forget([entry])

    def requeued(self, entries: Sequence[str], count: int) -> None:
        """Count jobs that were returned without being begun."""
        self._observer.state(Operation.RELEASE, count)
        self._forget(entries)

    def _span(self, entry: str) -> float:
        now = monotonic()
        return now - self._since.get(entry, now)

    def _forget(self, entries: Sequence[str]) -> None:
        for entry in entries:
            self._since.pop(entry, None)
