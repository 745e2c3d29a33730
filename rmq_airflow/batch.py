"""The messages that a task works on, and how they are settled when the task fails or is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.killed import Kill, TaskKilled, why_killed
from rmq_core import Batch, Lease, LeasedQueue, LeaseLost, Message, MessageRef, RedisMessageQueueError
from rmq_core.reports import SettleReport

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

KILL_BUDGET_S = 2.0  # Airflow sends SIGKILL a few seconds after SIGTERM
KILLED = "this task was killed, and its messages were released or nacked"


class TaskBatch(Batch, Sequence[Message]):
    """A Batch that is a sequence of all its messages, and whose task may be killed.

    Messages that the function neither acks, nacks nor releases are acked when it returns and nacked when it raises.
    """

    queue: LeasedQueue

    def __init__(self, queue: LeasedQueue, lease: Lease | None) -> None:
        super().__init__(queue, lease)
        self.in_hand: Sequence[Message] = ()
        self._judged: set[int] = set()
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

    def check(self) -> None:
        """Raise LeaseLost if the lease is known to be lost; call this before a step that cannot be undone."""
        if self._killed:
            raise LeaseLost(self.lease.id, KILLED)
        super().check()

    def holding(self) -> AbstractContextManager[Any]:
        """Send heartbeats that extend the lease while the block runs."""
        return self.queue.hold(self.lease) if self else nullcontext()

    def finish(self) -> None:
        """Ack the unsettled messages after the work succeeded. Raises LeaseLost, also after a kill."""
        if self._killed:
            raise LeaseLost(self.lease.id, KILLED)
        super().finish()

    def give_up(self, reason: str, queue: LeasedQueue | None = None, *, delay: timedelta | float | None = None) -> bool:
        """Nack the messages that the function was working on, release the others; return False if all were settled."""
        queue = queue or self.queue
        if not self._open:
            return False
        left, tried = self._unjudged(self._messages), self._unjudged(self.in_hand)
        self._given_up = True
        if tried:
            part = {"messages": tried} if len(tried) < len(left) else {}
            self._count_failed(queue.nack(self.lease, **part, reason=reason, delay=delay))
        if len(tried) < len(left):
            self._count_released(queue.release(self.lease))
        return True

    def kill(self, kill: Kill, queue: LeasedQueue) -> None:
        """Settle the batch from a signal handler, through `queue`, which has a connection of its own.

        If the kill counts as a failure, do the same as `give_up`; otherwise release all unsettled messages. Any attempt
        of the function to settle a message afterwards raises LeaseLost.
        """
        self._killed = True
        if not kill.is_failure:
            self.in_hand = ()
        self.give_up(f"the task was killed: {kill.why}", queue)

    @property
    def _open(self) -> bool:
        return super()._open and not self._given_up

    def _in_time(self, report: SettleReport, messages: Sequence[Message | MessageRef]) -> None:
        if messages and self._killed:
            raise LeaseLost(self.lease.id)
        super()._in_time(report, messages)
        self._judged |= {message.index for message in messages}

    def _unjudged(self, messages: Sequence[Message]) -> list[Message]:
        return [message for message in messages if message.index not in self._judged]


class ReleaseOnKillMixin:
    """Settle the batch that a task holds when the task is marked, cleared or deleted, or its worker shuts down."""

    _reopen: Callable[[], LeasedQueue] | None = None
    _batch: TaskBatch | None = None
    _ti: RuntimeTaskInstanceProtocol | None = None
    _killed = False  # never reset: Airflow makes a copy of the operator for every try

    @contextmanager
    def _holding(
        self, batch: TaskBatch, hook: RedisQueueHook, queue: LeasedQueue, ti: RuntimeTaskInstanceProtocol
    ) -> Iterator[None]:
        """Send heartbeats while the block runs. A kill after the block no longer changes how the batch was settled."""
        # Read the settings here: a signal handler must not call the supervisor, because the interrupted code may
        # hold the lock for it.
        settings, config = hook.settings, replace(queue.config, retry_budget=KILL_BUDGET_S)
        self._batch, self._ti = batch, ti
        self._reopen = lambda: LeasedQueue(settings, queue.name, config)
        try:
            if self._killed:
                self.on_kill()  # the signal came before there was a batch, and Airflow sends it only once
            with batch.holding():
                yield
        finally:
            self._batch = self._reopen = None

    def on_kill(self) -> None:
        """Settle the batch at once and stop the work. Runs in a signal handler, which may interrupt any code.

        Raises TaskKilled in the interrupted code, because nothing else ends the task when the supervisor receives
        SIGTERM. Logs nothing, because the interrupted code may hold the lock of the log.
        """
        self._killed = True
        batch, reopen = self._batch, self._reopen
        if not batch or reopen is None:
            return
        kill = why_killed(self._ti, batch.lease.owner)
        try:
            with reopen() as queue:
                batch.kill(kill, queue)
        except RedisMessageQueueError as error:
            raise TaskKilled(f"{kill.why}; its messages return when their lease expires: {error}") from error
        verdict = "this counts as a failure of its messages" if kill.is_failure else "its messages were released"
        raise TaskKilled(f"{kill.why}; {verdict}")
