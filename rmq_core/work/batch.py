"""A batch of messages under one lease, which are settled one by one or at the end.

Law: when the holder of the lease settles a single message, that takes effect at once. The end of the work, good or
bad, settles the others. A settlement that comes too late changes nothing in the queue and raises LeaseLost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from rmq_core.discipline.leased.sync import LeasedQueue
from rmq_core.envelope.codec import Message
from rmq_core.errors import ConfigurationError, LeaseLost
from rmq_core.messages import Isolation, Lease
from rmq_core.reports import Outcome, SettleReport

GONE = {Outcome.LOST, Outcome.MISSING}


class HeldBatch:
    """Messages under one lease, in order. Without work it holds no messages and no lease.

    acked, failed, dead, released: counts of messages so far; `failed` includes those that became dead letters.
    """

    def __init__(self, queue: LeasedQueue, lease: Lease | None) -> None:
        self.acked = self.failed = self.dead = self.released = 0
        self._queue, self._lease = queue, lease
        self._judged: set[int] = set()

    def __len__(self) -> int:
        return 0 if self._lease is None else self._lease.count

    def __iter__(self) -> Iterator[Message]:
        """Iterate over the messages that are not settled yet; a large batch is read in slices."""
        return iter(()) if self._lease is None else self._queue.messages(self._lease)

    @property
    def queue(self) -> str:
        """The name of the queue that the messages were claimed from."""
        return self._queue.name

    @property
    def payloads(self) -> list[Any]:
        """The payloads of the messages that are not settled yet."""
        return [message.payload for message in self]

    @property
    def isolation(self) -> Isolation | None:
        """Why the claim returned fewer messages than requested, if they had failed together before; else None."""
        return None if self._lease is None else self._lease.isolation

    def ack(self, *messages: Message) -> None:
        """Ack these messages; the others stay unsettled. Raises LeaseLost."""
        if messages:
            self.acked += self._spoken(self._queue.ack(self._held, messages), messages).settled

    def nack(self, *messages: Message, reason: str | None = None, delay: timedelta | float | None = None) -> None:
        """Nack these messages: each returns after `delay` or becomes a dead letter. Raises LeaseLost.

        delay: seconds or timedelta; None for the queue's backoff.
        """
        if messages:
            report = self._queue.nack(self._held, messages, reason=reason, delay=delay)
            self.failed += self._spoken(report, messages).settled
            self.dead += report.dead

    def release(self, *messages: Message) -> None:
        """Release these messages, which were not attempted; no delivery is counted. Raises LeaseLost."""
        if messages:
            self.released += self._spoken(self._queue.release(self._held, messages), messages).settled

    def check(self) -> None:
        """Raise LeaseLost if the lease is known to be lost; call it before an action that cannot be undone."""
        if self._lease is not None:
            self._lease.check()

    def finish(self) -> None:
        """Ack the unsettled messages after the work succeeded. Raises LeaseLost."""
        self.check()
        if self._open:
            self.acked += self._queue.ack(self._held).settled

    def keep(self, seconds: float | None) -> bool:
        """Extend the lease for a retry after a failure. Return False if no message was left. Raises LeaseLost."""
        if self._open:
            self._queue.extend(self._held, seconds)
        return self._open

    def give_up(self, reason: str) -> bool:
        """Nack the unsettled messages after the final failure. Return False if none was left. Raises LeaseLost."""
        if was_open := self._open:
            report = self._queue.nack(self._held, reason=reason)
            self.failed, self.dead = self.failed + report.settled, self.dead + report.dead
        return was_open

    def give_back(self) -> bool:
        """Release the unsettled messages if no failure is to blame. Return False if none was left. Raises LeaseLost."""
        if was_open := self._open:
            self.released += self._queue.release(self._held).settled
        return was_open

    def unspoken(self, messages: Iterable[Message]) -> list[Message]:
        """Return those of the messages that are not settled yet."""
        return [message for message in messages if message.index not in self._judged]

    @property
    def _open(self) -> bool:
        """Whether unsettled messages are left."""
        return self._lease is not None and not self._lease.state.settled

    @property
    def _held(self) -> Lease:
        if self._lease is None:
            raise ConfigurationError(f"nothing of {self._queue.name!r} was claimed; check `if batch:` before its lease")
        return self._lease

    def _spoken(self, report: SettleReport, messages: Sequence[Message]) -> SettleReport:
        if GONE & set(report.outcomes):
            raise LeaseLost(self._held.id)
        self._judged |= {message.index for message in messages}
        return report
