"""The messages a task works on, and what becomes of each.

Law: a message is settled the moment its verdict is spoken, by the holder of its lease; what nobody spoke about is
settled by how the work ended. A verdict that comes too late changes nothing in the queue and raises LeaseLost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

from rmq_airflow.killed import Kill, TaskKilled, why_killed
from rmq_core import LeasedQueue, LeaseLost, Message, Outcome, RedisMessageQueueError

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

    from rmq_airflow.hooks.queue import RedisQueueHook
    from rmq_core import Isolation, Lease, SettleReport

KILL_BUDGET_S = 2.0  # a killed task has a few seconds before it is killed for good
KILLED = "this task was killed and has given its messages back"
GONE = {Outcome.LOST, Outcome.MISSING}
log = logging.getLogger(__name__)


class Batch(Sequence[Message]):
    """Messages under one lease, in order; empty when there was no work.

    Those that are neither acked, nacked nor released while the function runs are acked when it returns and nacked when
    it raises.
    """

    def __init__(self, queue: LeasedQueue, lease: Lease | None) -> None:
        self.lease = lease
        self.in_hand: Sequence[Message] = ()
        self.acked = self.failed = self.dead = self.released = 0
        self._queue, self._killed = queue, False
        self._messages = () if lease is None else tuple(queue.messages(lease))
        self._open = {message.index for message in self._messages}

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @property
    def queue(self) -> str:
        """The name of the queue they were claimed from."""
        return self._queue.name

    @property
    def payloads(self) -> list[Any]:
        """What was published."""
        return [message.payload for message in self._messages]

    @property
    def isolation(self) -> Isolation | None:
        """Why these are fewer messages than were asked for, when they failed together before; else None."""
        return None if self.lease is None else self.lease.isolation

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """How many were acked, failed, became dead letters by that, and were released."""
        return self.acked, self.failed, self.dead, self.released

    def ack(self, *messages: Message) -> None:
        """These are done, whatever becomes of the others."""
        if messages:
            self.acked += self._spoken(messages, self._queue.ack(self._held, messages))

    def nack(self, *messages: Message, reason: str | None = None, delay: timedelta | float | None = None) -> None:
        """These failed: back into the queue after `delay` (the queue's backoff when None), or a dead letter."""
        if messages:
            report = self._queue.nack(self._held, messages, reason=reason, delay=delay)
            self.failed += self._spoken(messages, report)
            self.dead += report.dead

    def release(self, *messages: Message) -> None:
        """These were not tried: back into the queue, without a delivery being counted."""
        if messages:
            self.released += self._spoken(messages, self._queue.release(self._held, messages))

    def unspoken(self, messages: Sequence[Message]) -> list[Message]:
        """Those of the messages that have no verdict yet."""
        return [message for message in messages if message.index in self._open]

    def check(self) -> None:
        """Raise LeaseLost when the messages are known to be somebody else's; call it before what cannot be undone."""
        if self._killed:
            raise LeaseLost(self._held.id, KILLED)
        if self.lease is not None:
            self.lease.check()

    def holding(self) -> AbstractContextManager[Any]:
        """Heartbeats while the block runs."""
        return nullcontext() if self.lease is None else self._queue.hold(self.lease)

    def finish(self) -> None:
        """The work ended well: ack what nobody spoke about. Raises LeaseLost."""
        self.check()
        if self._open:
            self.acked += self._queue.ack(self._held).settled
            self._open.clear()

    def keep(self, seconds: float) -> None:
        """The work failed and will be tried again: hold what is left for `seconds`."""
        if self._open:
            self._queue.extend(self._held, seconds)

    def give_up(self, reason: str, queue: LeasedQueue | None = None, *, delay: timedelta | float | None = None) -> None:
        """The work ended badly: nack what is in hand, release what was not tried."""
        queue = queue or self._queue
        tried = self.unspoken(self.in_hand)
        untried = self._open - {message.index for message in tried}
        self._open = set()
        if tried and untried:
            report = queue.nack(self._held, tried, reason=reason, delay=delay)
            self.released += queue.release(self._held).settled
        elif tried:
            report = queue.nack(self._held, reason=reason, delay=delay)
        elif untried:
            self.released += queue.release(self._held).settled
        if tried:
            self.failed, self.dead = self.failed + len(tried), self.dead + report.dead

    def kill(self, kill: Kill, queue: LeasedQueue) -> None:
        """From a signal handler, on a connection of its own: after a failure the same, else release all of it.

        What the work says from then on is too late.
        """
        self._killed = True
        if kill.is_failure:
            self.give_up(f"the task was killed: {kill.why}", queue)
        elif self._open:
            self._open = set()
            self.released += queue.release(self._held).settled

    @property
    def _held(self) -> Lease:
        assert self.lease is not None  # noqa: S101  an empty batch has no message to speak about
        return self.lease

    def _spoken(self, messages: Sequence[Message], report: SettleReport) -> int:
        if self._killed or GONE & set(report.outcomes):
            raise LeaseLost(self._held.id)
        self._open -= {message.index for message in messages}
        return report.settled


def attempt(step: Callable[[], None], batch: Batch) -> None:
    """Take a step after a failure, whose own exception matters more: what does not succeed here, expiry does later."""
    try:
        step()
    except RedisMessageQueueError:
        name = batch.lease and batch.lease.id
        log.warning("Lease %s was left as it is; it returns when it expires.", name, exc_info=True)


class GivesBackWhenKilled:
    """What a task does about the batch it holds when it is marked, cleared, deleted or shut down."""

    _reopen: Callable[[], LeasedQueue] | None = None
    _batch: Batch | None = None
    _ti: RuntimeTaskInstanceProtocol | None = None
    _killed = False  # never reset: Airflow makes a copy of the operator for every try

    @contextmanager
    def _holding(
        self, batch: Batch, hook: RedisQueueHook, queue: LeasedQueue, ti: RuntimeTaskInstanceProtocol
    ) -> Iterator[None]:
        """Heartbeats while the block runs; after it, what the block decided stands, though Airflow may still kill."""
        # Looked up here: a signal handler must not talk to the supervisor, whose lock what it interrupts may hold.
        settings, config = hook.settings, replace(queue.config, retry_budget=KILL_BUDGET_S)
        self._batch, self._ti = batch, ti
        self._reopen = lambda: LeasedQueue(settings, queue.name, config)
        try:
            if self._killed:
                self.on_kill()  # for a signal that came before there was a batch: there is only the one
            with batch.holding():
                yield
        finally:
            self._batch = self._reopen = None

    def on_kill(self) -> None:
        """Give the batch back at once and stop the work. Runs in a signal handler, in the middle of anything.

        Raises TaskKilled into what it interrupts: after SIGTERM of a supervisor nobody else would end the task. It
        logs nothing, for what it interrupts may hold the lock of the log.
        """
        self._killed = True
        batch, reopen = self._batch, self._reopen
        if batch is None or reopen is None or batch.lease is None:
            return
        kill = why_killed(self._ti)
        try:
            with reopen() as queue:
                batch.kill(kill, queue)
        except RedisMessageQueueError as error:
            raise TaskKilled(f"{kill.why}; its messages return when their lease expires: {error}") from error
        verdict = "this counts as a failure of its messages" if kill.is_failure else "its messages were released"
        raise TaskKilled(f"{kill.why}; {verdict}")
