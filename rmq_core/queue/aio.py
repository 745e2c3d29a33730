"""`AsyncFacade`: the operations of a queue as methods, run by the asyncio driver."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rmq_core.batch import AsyncBatch
from rmq_core.connection.clients import async_client
from rmq_core.envelope.codec import Message
from rmq_core.exchange import Patience
from rmq_core.interrupt_handler import Stop
from rmq_core.messages import Lease, token_of
from rmq_core.policy import seconds
from rmq_core.queue.aio_heartbeats import AsyncExtender, heartbeats
from rmq_core.queue.aio_running import AsyncRun
from rmq_core.queue.base import Awaited, E, QueueBase
from rmq_core.queue.heartbeats import Heartbeat
from rmq_core.queue.process import AsyncProcess, failure_logged, reason_of
from rmq_core.queue.recording import flush, one_attempt
from rmq_core.queue.running import RunOptions
from rmq_core.queue.settle import open_places
from rmq_core.reports import RunReport


class AsyncFacade(QueueBase[E], Awaited):
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
        lease_s = self._engine.beat_s if by is None else by
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
    ) -> AsyncProcess:
        """Claim, keep the lease alive while the block runs, ack when it ends, nack when it raises.

        Yields an AsyncBatch, which is empty, and false, when there is no work. An exception propagates after the nack;
        cancellation, KeyboardInterrupt and SystemExit leave the lease alone; its messages are redelivered when it
        expires. Messages settled in the block stay settled; the end of the block settles the rest, or raises LeaseLost
        if `batch.lease.lost` was true before. Takes the arguments of `claim`. Also decorates a coroutine function that
        takes an AsyncBatch; it is not called when there is no work.
        """
        claim = functools.partial(
            self._verbs.claim, max_messages=max_messages, lease=lease, wait=wait, lease_id=lease_id, owner=owner
        )
        return AsyncProcess(functools.partial(self._process, claim, lease))

    @asynccontextmanager
    async def _process(
        self, claim: Callable[[], Awaitable[Lease | None]], by: timedelta | float | None
    ) -> AsyncIterator[AsyncBatch]:
        held = await claim()
        batch = AsyncBatch(self._verbs, held)
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
    ) -> RunReport:
        """Claim and pass messages to `handler` until stopped; ack what it returns for, nack what it raises for.

        handler: a coroutine function. It gets one message; with `max_messages`, a batch of at most that many,
        whose messages it may settle one by one. An error is logged and is the reason of the nack; the queue's backoff
        applies, or `retry_after` (seconds or timedelta) replaces it. concurrency: how many tasks work at once.
        until_empty: return when no message was ready for `wait` (seconds or timedelta). lease, owner: as for `claim`.

        SIGINT and SIGTERM let the handlers finish, then `run` returns; a second signal releases their messages and
        raises KeyboardInterrupt. They are handled in the main thread only, and not if `stop`, such as a
        threading.Event, is passed: then the run stops once it is set. A lost lease, or a Redis that is away, is logged,
        and the run goes on; with `until_empty`, QueueUnavailable is raised. Raises ConfigurationError, Unsupported.
        """
        options = RunOptions(
            max_messages=max_messages,
            concurrency=concurrency,
            lease=lease,
            wait=wait,
            until_empty=until_empty,
            retry_after=retry_after,
            owner=owner,
            stop=stop,
        )
        return await AsyncRun(self, self._hold, handler, options).run()

    async def _counted(self, result: Any, driver: Any = None) -> Any:
        found, tally = await result, self._tally
        if tally is not None and tally.noted and monotonic() >= tally.next_at:
            await (driver or self._driver).run(flush(self._recorder, found), one_attempt())
        return found

    async def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool]:
        """Extend many leases in one write, each by its own seconds; return False for each that is lost. One attempt."""
        try:
            return await self._driver.run(self._extend_all(self._engine, leases), Patience(0))
        finally:
            if self._tally is not None and self._tally.noted and self._driver.connected:
                await self._driver.run(flush(self._recorder), one_attempt())
            if self._closed:  # `close` ran meanwhile and could not close the connection in use here
                await self._close_clients()

    async def close(self) -> None:
        """Release claims whose reply never arrived, and return the connections to the pool."""
        self._closed = True
        try:
            await self._driver.run(self._leave(self._engine))
            if self._tally is not None and self._driver.connected:
                await self._driver.run(flush(self._recorder), one_attempt())
        finally:
            await self._close_clients()

    async def _close_clients(self) -> None:
        await self._driver.close()
        if self._owned:
            await self.client.aclose()

    async def messages(self, lease: Lease) -> AsyncIterator[Message]:
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


class AsyncLargeLeaseFacade(AsyncFacade[E]):
    """A queue whose leases may be too large for one reply; `read` must be among its operations."""

    async def messages(self, lease: Lease, slice_size: int = 1000) -> AsyncIterator[Message]:
        """Yield the unsettled messages of a lease in order, read in slices as they are needed. Raises LeaseLost."""
        if lease.complete and not lease.state.partly:
            for message in lease.messages:
                yield message
            return
        for lo in range(0, lease.count, slice_size):
            for message in await self._verbs.read(lease, lo, lo + slice_size):
                yield message
