"""`AsyncQueueConsumer`: the asyncio version of QueueConsumer, with the same behaviour. See `consumer`."""

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
        """Begin no new read. A read or handler in progress goes on; messages not acknowledged stay pending."""
        self._stopping = True

    async def next(self, block_ms: int | None = None) -> QueueMessage | None:
        """Return the next new message. Return None after `stop`, or when none comes within `block_ms`.

        None means the config's block_ms. A message that arrives while `stop` is called is returned. Raises QueueError.
        """
        if self._stopping:
            return None
        messages = await self.queue.read(block_ms, 1)
        return messages[0] if messages else None

    async def iter_messages(self) -> AsyncIterator[QueueMessage]:
        """Yield new messages as they arrive, until `stop`. Raises QueueError."""
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
        """Until `stop`: fetch a message, call `handler(message, tx)`, commit, ack.

        An exception of the handler rolls the transaction back and is raised again. When an ack fails, the transaction
        of its message is committed, and the message will be redelivered. Raises QueueError.
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
        """Process at most `count` stale messages as `run` does, taking over one at a time. Return how many.

        The application decides when to make this one pass. It ends at `stop`, or when no message is stale. Raises
        QueueError.
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
        """Close the connections. Messages that are not acknowledged stay pending."""
        await self.queue.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
