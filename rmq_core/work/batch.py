"""Messages under one lease, and what becomes of each.

Law: a message is settled the moment its verdict is spoken, by the holder of its lease; what nobody spoke about is
settled by how the work ended. A verdict that comes too late changes nothing in the queue and raises LeaseLost.
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
    """Messages under one lease, in order; none, and no lease, when there was no work.

    acked, failed, dead, released: how many were, so far; those that are dead letters now have failed, too.
    """

    def __init__(self, queue: LeasedQueue, lease: Lease | None) -> None:
        self.acked = self.failed = self.dead = self.released = 0
        self._queue, self._lease = queue, lease
        self._judged: set[int] = set()

    def __len__(self) -> int:
        return 0 if self._lease is None else self._lease.count

    def __iter__(self) -> Iterator[Message]:
        """The messages that are not settled yet; a large batch is read in slices."""
        return iter(()) if self._lease is None else self._queue.messages(self._lease)

    @property
    def queue(self) -> str:
        """The name of the queue they were claimed from."""
        return self._queue.name

    @property
    def payloads(self) -> list[Any]:
        """What was published, of the messages that are not settled yet."""
        return [message.payload for message in self]

    @property
    def isolation(self) -> Isolation | None:
        """Why these are fewer messages than were asked for, when they failed together before; else None."""
        return None if self._lease is None else self._lease.isolation

    def ack(self, *messages: Message) -> None:
        """These are done, whatever becomes of the others. Raises LeaseLost."""
        if messages:
            self.acked += self._spoken(self._queue.ack(self._held, messages), messages).settled

    def nack(self, *messages: Message, reason: str | None = None, delay: timedelta | float | None = None) -> None:
        """These failed: back into the queue after `delay` (its backoff when None), or a dead letter. LeaseLost."""
        if messages:
            report = self._queue.nack(self._held, messages, reason=reason, delay=delay)
            self.failed += self._spoken(report, messages).settled
            self.dead += report.dead

    def release(self, *messages: Message) -> None:
        """These were not tried: back into the queue, without a delivery being counted. Raises LeaseLost."""
        if messages:
            self.released += self._spoken(self._queue.release(self._held, messages), messages).settled

    def check(self) -> None:
        """Raise LeaseLost when the messages are known to be somebody else's; call it before what cannot be undone."""
        if self._lease is not None:
            self._lease.check()

    def finish(self) -> None:
        """The work ended well: ack what nobody spoke about. Raises LeaseLost."""
        self.check()
        if self._open:
            self.acked += self._queue.ack(self._held).settled

    def keep(self, seconds: float | None) -> bool:
        """The work failed and will be tried again: hold what is left. False: nothing was left. Raises LeaseLost."""
        if self._open:
            self._queue.extend(self._held, seconds)
        return self._open

    def give_up(self, reason: str) -> bool:
        """The work failed for good: nack what is left. False: nothing was left. Raises LeaseLost."""
        if was_open := self._open:
            report = self._queue.nack(self._held, reason=reason)
            self.failed, self.dead = self.failed + report.settled, self.dead + report.dead
        return was_open

    def give_back(self) -> bool:
        """Nobody's fault: release what is left. False: nothing was left. Raises LeaseLost."""
        if was_open := self._open:
            self.released += self._queue.release(self._held).settled
        return was_open

    def unspoken(self, messages: Iterable[Message]) -> list[Message]:
        """Those of the messages that have no verdict yet."""
        return [message for message in messages if message.index not in self._judged]

    @property
    def _open(self) -> bool:
        """Whether messages wait for a verdict."""
        return self._lease is not None and not self._lease.state.settled

    @property
    def _held(self) -> Lease:
        if self._lease is None:
            raise ConfigurationError(f"nothing of {self._queue.name!r} was claimed; ask `if batch:` before its lease")
        return self._lease

    def _spoken(self, report: SettleReport, messages: Sequence[Message]) -> SettleReport:
        if GONE & set(report.outcomes):
            raise LeaseLost(self._held.id)
        self._judged |= {message.index for message in messages}
        return report
