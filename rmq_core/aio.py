"""The asyncio queue: operations as methods, run by the asyncio driver, and heartbeats.

One task per event loop extends every lease in use. For each round it starts one task per queue, so that a server that
hangs delays no other server. See `rmq_core.queue`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from functools import partial
from itertools import zip_longest
from time import monotonic
from types import TracebackType
from typing import Any, Generic, Protocol, Self
from weakref import WeakKeyDictionary

from rmq_core.admin.history import flush, one_attempt
from rmq_core.batch import AsyncBatch
from rmq_core.connection.clients import async_client
from rmq_core.envelope.codec import Message, P
from rmq_core.errors import RedisMessageQueueError
from rmq_core.interrupt_handler import Stop, Stopping
from rmq_core.kernel.base import E
from rmq_core.kernel.settling import open_places
from rmq_core.messages import Lease, token_of
from rmq_core.policy import seconds
from rmq_core.queue import Connected, Heartbeat, settle_heartbeat
from rmq_core.reports import RunReport
from rmq_core.running import PAUSE_S, Abandoned, AsyncProcess, Run, RunOptions, failure_logged, reason_of
from rmq_core.twin import Awaited

_log = logging.getLogger("rmq")


class AsyncExtender(Protocol):
    """The part of a queue that a heartbeat uses."""

    async def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool | None]:
        """Extend leases in one write; return False for each that is lost."""
        ...  # pragma: no cover


class HeartbeatTask:
    """The heartbeats of an event loop and the task that sends them; the task runs while there are heartbeats."""

    def __init__(self) -> None:
        self._heartbeats: set[Heartbeat[AsyncExtender]] = set()
        self._changed = asyncio.Event()
        self._sending: dict[AsyncExtender, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, heartbeat: Heartbeat[AsyncExtender]) -> None:
        self._heartbeats.add(heartbeat)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="rmq-heartbeat")

    def remove(self, heartbeat: Heartbeat[AsyncExtender]) -> None:
        self._heartbeats.discard(heartbeat)
        if not self._heartbeats:
            self._changed.set()

    def end_all(self) -> None:
        """Stop, in a forked child: no heartbeat of the parent reports the deadlines of its leases there."""
        for heartbeat in self._heartbeats:
            heartbeat.end()

    async def _run(self) -> None:
        try:
            while self._heartbeats or self._sending:
                await self._send_due()
        finally:
            if not self._heartbeats:  # the entry refers to its event loop: if it stayed, both would stay in memory
                _tasks_of.pop(asyncio.get_running_loop(), None)

    async def _send_due(self) -> None:
        now = time.monotonic()
        free = [heartbeat for heartbeat in self._heartbeats if heartbeat.queue not in self._sending]
        due = [heartbeat for heartbeat in free if heartbeat.next_at <= now]
        for queue in {heartbeat.queue for heartbeat in due}:
            self._begin(queue, [heartbeat for heartbeat in due if heartbeat.queue is queue])
        later = [heartbeat.next_at for heartbeat in free if heartbeat.next_at > now]
        await self._sleep(min(later) - now if later else None)

    def _begin(self, queue: AsyncExtender, due: list[Heartbeat[AsyncExtender]]) -> None:
        sending = asyncio.get_running_loop().create_task(self._send(queue, due), name="rmq-heartbeats")
        self._sending[queue] = sending
        sending.add_done_callback(lambda _: self._end(queue))

    def _end(self, queue: AsyncExtender) -> None:
        del self._sending[queue]
        self._changed.set()

    async def _sleep(self, delay_s: float | None) -> None:
        self._changed.clear()
        try:
            async with asyncio.timeout(delay_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _send(self, queue: AsyncExtender, due: list[Heartbeat[AsyncExtender]]) -> None:
        sent, kept = time.monotonic(), []
        try:
            kept = list(await queue.extend_all([heartbeat.asked() for heartbeat in due]))
        except RedisMessageQueueError as error:
            _log.warning("heartbeat of %d leases failed: %s", len(due), error)
        except Exception:  # no error may stop the heartbeats of other queues
            _log.exception("heartbeat of %d leases failed", len(due))
        for heartbeat, alive in zip_longest(due, kept):
            settle_heartbeat(heartbeat, alive, sent)
            if heartbeat.over:
                self.remove(heartbeat)


_tasks_of: WeakKeyDictionary[Any, HeartbeatTask] = WeakKeyDictionary()


def _end_all() -> None:
    for task in list(_tasks_of.values()):
        task.end_all()


os.register_at_fork(after_in_child=_end_all)


def heartbeats() -> HeartbeatTask:
    """Return the heartbeats of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _tasks_of:
        _tasks_of[loop] = HeartbeatTask()
    return _tasks_of[loop]


class AsyncRun(Run):
    """A run of an asyncio queue: each worker is a task."""

    asynchronous = True
    interruptions = (KeyboardInterrupt, Abandoned, asyncio.CancelledError)

    async def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return await function(*args, **options)

    async def pause(self) -> None:
        await asyncio.sleep(PAUSE_S)

    def heartbeats(self, lease: Lease) -> AbstractAsyncContextManager[object]:
        held: AbstractAsyncContextManager[object] = self._hold(lease, self.options.lease, fresh=True)
        return held

    def blames(self, error: BaseException) -> bool:
        if isinstance(error, asyncio.CancelledError):  # of a task of the handler's own, unless this one is cancelled
            task = asyncio.current_task()
            return task is not None and not task.cancelling()
        return super().blames(error)

    async def run(self) -> RunReport:
        """Return when all workers have ended. Raise the first error of one, or KeyboardInterrupt."""
        loop = asyncio.get_running_loop()
        with self.stopping(partial(Stopping, lambda: loop.call_soon_threadsafe(self._interrupt))):
            self._workers = [loop.create_task(self.work()) for _ in range(self.options.concurrency)]
            try:
                await asyncio.wait(self._workers, return_when=asyncio.FIRST_EXCEPTION)
                self._ending = True
                await asyncio.wait(self._workers)
            finally:
                self._cancel()
                await asyncio.gather(*self._workers, return_exceptions=True)
            if self._interrupted:
                raise KeyboardInterrupt
            for worker in self._workers:
                worker.result()
        return self.report

    def _interrupt(self) -> None:
        self._interrupted = True
        self._cancel()

    def _cancel(self) -> None:
        for worker in self._workers:
            worker.cancel()


class AsyncFacade(Connected[E], Awaited, Generic[E, P]):
    """A queue over a redis.asyncio client, RedisSettings or a URL; it closes only a client it made itself.

    A queue class combines a list of operations with this class; the list must hold `claim`, `ack` and `nack`.
    """

    def _connect(self, redis: Any) -> None:
        from rmq_core.exchange.public import async_driver  # loads redis-py, which an import must not do

        engine = self._engine
        self.client, self._owned = async_client(redis)
        self._driver = async_driver(self.client, engine.prefix, engine.retry_budget_s)

    def hold(
        self, lease: Lease, by: timedelta | float | None = None, on_lost: Callable[[Lease], object] | None = None
    ) -> AbstractAsyncContextManager[Lease]:
        """Let the heartbeat task extend a lease while the block runs; it calls `on_lost(lease)` if the lease is lost.

        by: the length of each extension, in seconds or as a timedelta; None for the queue's lease.
        """
        return self._hold(lease, by, on_lost)

    @asynccontextmanager
    async def _hold(
        self,
        lease: Lease,
        by: timedelta | float | None,
        on_lost: Callable[[Lease], object] | None = None,
        *,
        fresh: bool = False,
    ) -> AsyncIterator[Lease]:
        token_of(lease)  # raises for a lease without a token, which would stop the heartbeat of the other leases
        lease_s = self._engine.heartbeat_s if by is None else by
        if lease_s is None:
            yield lease
            return
        heartbeat: Heartbeat[AsyncExtender] = Heartbeat(
            self, lease, seconds("by", lease_s, minimum=0.001), on_lost, fresh
        )
        heartbeats().add(heartbeat)
        try:
            yield lease
        finally:
            heartbeats().remove(heartbeat)
            heartbeat.end()

    def process(
        self,
        *,
        max_messages: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        lease_id: str | None = None,
        owner: str | None = None,
        groups: Collection[str] | None = None,
    ) -> AsyncProcess[P]:
        """Claim, keep the lease alive while the block runs, ack when it ends, nack when it raises.

        As `process` of the blocking queue, with an AsyncBatch and for coroutine functions. Cancellation leaves the
        lease alone, too.
        """
        claim = functools.partial(
            self._verbs.claim, max_messages=max_messages, lease=lease, wait=wait, lease_id=lease_id, owner=owner,
            groups=groups,
        )  # fmt: skip
        return AsyncProcess(functools.partial(self._process, claim, lease))

    @asynccontextmanager
    async def _process(
        self, claim: Callable[[], Awaitable[Lease | None]], by: timedelta | float | None
    ) -> AsyncIterator[AsyncBatch[P]]:
        held = await claim()
        batch: AsyncBatch[P] = AsyncBatch(self._verbs, held)
        if held is None:
            yield batch
            return
        async with self._hold(held, by, fresh=True):
            try:
                yield batch
            except Exception as error:
                with failure_logged(held):
                    await batch.give_up(reason_of(error))
                raise
            await batch.finish()

    async def run(
        self,
        handler: Callable[[Any], Awaitable[object]],
        *,
        max_messages: int | None = None,
        concurrency: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        until_empty: bool = False,
        retry_after: timedelta | float | None = None,
        owner: str | None = None,
        stop: Stop | None = None,
        groups: Collection[str] | None = None,
        alive: str | os.PathLike[str] | None = None,
    ) -> RunReport:
        """Claim and pass messages to `handler` until stopped; ack what it returns for, nack what it raises for.

        As `run` of the blocking queue. handler: a coroutine function. concurrency: how many tasks work at once.
        """
        options = RunOptions(
            max_messages=max_messages, concurrency=concurrency, lease=lease, wait=wait, until_empty=until_empty,
            retry_after=retry_after, owner=owner, stop=stop, groups=groups, alive=alive,
        )  # fmt: skip
        return await AsyncRun(self, self._hold, handler, options).run()

    async def _counted(self, result: Any, driver: Any = None) -> Any:
        found, tally = await result, self._tally
        if tally is not None and tally.noted and monotonic() >= tally.next_at:
            await (driver or self._driver).run(flush(self._recorder, found), one_attempt())
        return found

    async def messages(self, lease: Lease) -> AsyncIterator[Message[P]]:
        """Yield the messages of a lease that are not settled yet, in order."""
        found = lease.messages
        for place in open_places(lease):
            yield found[place]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncLargeLeaseFacade(AsyncFacade[E, P]):
    """A queue whose leases may be too large for one reply; `read` must be among its operations."""

    async def messages(self, lease: Lease, slice_size: int = 1000) -> AsyncIterator[Message[P]]:
        """Yield the unsettled messages of a lease in order, read in slices as they are needed. Raises LeaseLost."""
        if lease.complete and not lease.state.partly:
            for message in lease.messages:
                yield message
            return
        for lo in range(0, lease.count, slice_size):
            for message in await self._verbs.read(lease, lo, lo + slice_size):
                yield message
