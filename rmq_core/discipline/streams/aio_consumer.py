"""`AsyncQueueConsumer`: the asyncio twin of QueueConsumer, under the same law. See `consumer`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from rmq_core.discipline.streams.aio import AsyncStreamQueue
from rmq_core.discipline.streams.config import QueueConfig
from rmq_core.discipline.streams.consumer import check_single
from rmq_core.discipline.streams.messages import QueueMessage
from rmq_core.discipline.streams.transactions import AsyncDbFactory, AsyncDbTx, async_committed
from rmq_core.events import OnEvent

Tx = TypeVar("Tx", bound=AsyncDbTx)


class AsyncQueueConsumer:
    """One consumer of a group. `stop` may be called from the event loop and from a signal handler."""

    def __init__(self, redis: Any, config: QueueConfig, *, on_event: OnEvent | None = None) -> None:
        check_single(config)
        self.queue = AsyncStreamQueue(redis, config, on_event=on_event)
        self.config = config
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def stop(self) -> None:
        """Read no more. What is being read or handled goes on; what is not acknowledged stays pending."""
        self._stopping = True

    async def next(self, block_ms: int | None = None) -> QueueMessage | None:
        """The next new message, or None when none came within `block_ms` (the config's when None), or after `stop`.

        A message that comes while the consumer is told to stop is returned. Raises QueueError.
        """
        if self._stopping:
            return None
        messages = await self.queue.read(block_ms, 1)
        return messages[0] if messages else None

    async def iter_messages(self) -> AsyncIterator[QueueMessage]:
        """New messages as they come, until `stop`. Raises QueueError."""
        while not self._stopping:
            message = await self.next()
            if message is not None:
                yield message

    async def ack(self, message: QueueMessage) -> None:
        """Acknowledge a message; harmless when it was acknowledged before. Raises QueueError."""
        await self.queue.ack(message)

    async def claim_stale(self, min_idle_ms: int | None = None, count: int = 10) -> list[QueueMessage]:
        """Take over messages that were delivered long ago and not acknowledged; see StreamQueue. Raises QueueError."""
        return await self.queue.claim_stale(min_idle_ms, count)

    async def run(
        self, *, handler: Callable[[QueueMessage, Tx], Awaitable[object]], db_factory: AsyncDbFactory[Tx]
    ) -> None:
        """Until `stop`: fetch, `handler(message, tx)`, commit, ack. What the handler raises is rolled back and raised.

        When an ack fails, its message was committed and will be delivered again. Raises QueueError.
        """
        while not self._stopping:
            message = await self.next()
            if message is not None:
                await self._process(message, handler, db_factory)

    async def run_claim_stale(
        self,
        *,
        handler: Callable[[QueueMessage, Tx], Awaitable[object]],
        db_factory: AsyncDbFactory[Tx],
        min_idle_ms: int | None = None,
        count: int = 10,
    ) -> int:
        """Process at most `count` stale messages as `run` does, taking over one at a time; how many that were.

        One pass, when the application decides; it ends at `stop`, and when nothing is stale. Raises QueueError.
        """
        for done in range(count):
            stale = [] if self._stopping else await self.claim_stale(min_idle_ms, 1)
            if not stale:
                return done
            await self._process(stale[0], handler, db_factory)
        return count

    async def _process(
        self,
        message: QueueMessage,
        handler: Callable[[QueueMessage, Tx], Awaitable[object]],
        db_factory: AsyncDbFactory[Tx],
    ) -> None:
        tx = await db_factory.begin()
        async with async_committed(tx):
            await handler(message, tx)
        await self.ack(message)

    async def close(self) -> None:
        """Close the connections. What is not acknowledged stays pending."""
        await self.queue.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
