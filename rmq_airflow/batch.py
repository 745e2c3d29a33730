"""The messages a task works on, and what becomes of them when the task fails or is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.killed import Kill, TaskKilled, why_killed
from rmq_core import Lease, LeasedQueue, LeaseLost, Message, RedisMessageQueueError, SettleReport
from rmq_core.work import HeldBatch

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

KILL_BUDGET_S = 2.0  # a killed task has a few seconds before it is killed for good
KILLED = "this task was killed and has given its messages back"


class TaskBatch(HeldBatch, Sequence[Message]):
    """Messages under one lease, in order; empty when there was no work.

    Those that are neither acked, nacked nor released while the function runs are acked when it returns and nacked when
    it raises.
    """

    def __init__(self, queue: LeasedQueue, lease: Lease | None) -> None:
        super().__init__(queue, lease)
        self.in_hand: Sequence[Message] = ()
        self._given_up = self._killed = False
        self._messages = tuple(super().__iter__())

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
    def lease(self) -> Lease | None:
        """The lease; an empty batch has none."""
        return self._lease

    def check(self) -> None:
        """Raise LeaseLost when the messages are known to be somebody else's; call it before what cannot be undone."""
        if self._killed:
            raise LeaseLost(self._held.id, KILLED)
        super().check()

    def holding(self) -> AbstractContextManager[Any]:
        """Heartbeats while the block runs."""
        return nullcontext() if self.lease is None else self._queue.hold(self.lease)

    def give_up(self, reason: str, queue: LeasedQueue | None = None, *, delay: timedelta | float | None = None) -> bool:
        """The work ended badly: nack what is in hand, release what was not tried. False: nothing was left."""
        queue = queue or self._queue
        if not self._open:
            return False
        left, tried = self.unspoken(self._messages), self.unspoken(self.in_hand)
        self._given_up = True
        if tried:
            part = {"messages": tried} if len(tried) < len(left) else {}
            report = queue.nack(self._held, **part, reason=reason, delay=delay)
            self.failed, self.dead = self.failed + len(tried), self.dead + report.dead
        if len(tried) < len(left):
            self.released += queue.release(self._held).settled
        return True

    def kill(self, kill: Kill, queue: LeasedQueue) -> None:
        """From a signal handler, on a connection of its own: after a failure the same, else release all of it.

        What the work says from then on is too late.
        """
        self._killed = True
        if not kill.is_failure:
            self.in_hand = ()
        self.give_up(f"the task was killed: {kill.why}", queue)

    @property
    def _open(self) -> bool:
        return super()._open and not self._given_up

    def _spoken(self, report: SettleReport, messages: Sequence[Message]) -> SettleReport:
        if self._killed:
            raise LeaseLost(self._held.id)
        return super()._spoken(report, messages)


class ReleaseOnKillMixin:
    """What a task does about the batch it holds when it is marked, cleared, deleted or shut down."""

    _reopen: Callable[[], LeasedQueue] | None = None
    _batch: TaskBatch | None = None
    _ti: RuntimeTaskInstanceProtocol | None = None
    _killed = False  # never reset: Airflow makes a copy of the operator for every try

    @contextmanager
    def _holding(
        self, batch: TaskBatch, hook: RedisQueueHook, queue: LeasedQueue, ti: RuntimeTaskInstanceProtocol
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
