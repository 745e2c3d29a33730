"""`QueueConsumer` fetches messages, hands them to its caller, acknowledges them on request, and does nothing else.

It holds one message at a time. It acknowledges and retries nothing by itself, takes over messages only on request and
catches no exception of the application. `run` is optional: it handles, commits and acks in this order.
`AsyncQueueConsumer` behaves the same.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from rmq_core.discipline.streams.aio import AsyncStreamQueue
from rmq_core.discipline.streams.config import QueueConfig
from rmq_core.discipline.streams.messages import QueueMessage
from rmq_core.discipline.streams.sync import StreamQueue
from rmq_core.discipline.streams.transactions import AsyncDbFactory, DbFactory, DbTx, committed
from rmq_core.errors import ConfigurationError
from rmq_core.events import OnEvent
from rmq_core.queue.base import Awaited, Blocking
from rmq_core.queue.twin import Twin, awaited

Tx = TypeVar("Tx", bound=DbTx)


class ConsumerBase:
    """The methods of QueueConsumer and AsyncQueueConsumer."""

    _queue_class: type[StreamQueue | AsyncStreamQueue]

    def __init__(self, redis: Any, config: QueueConfig, *, on_event: OnEvent | None = None) -> None:
        if not isinstance(config, QueueConfig):
            raise ConfigurationError(f"config must be a QueueConfig, not {type(config).__name__}")
        if config.max_read_count != 1:
            raise ConfigurationError(f"max_read_count must be 1 for a QueueConsumer, not {config.max_read_count}")
        self.queue: Any = self._queue_class(redis, config, on_event=on_event)
        self.config = config
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def stop(self) -> None:
        """Begin no new read. A read or handler in progress goes on; messages not acknowledged stay pending."""
        self._stopping = True

    @Twin
    async def next(self, block_ms: int | None = None) -> QueueMessage | None:
        """Return the next new message. Return None after `stop`, or when none comes within `block_ms`.

        None means the config's block_ms. A message that arrives while `stop` is called is returned. Raises QueueError.
        """
        if self._stopping:
            return None
        messages: list[QueueMessage] = await awaited(self.queue.read(block_ms, 1))
        return messages[0] if messages else None

    @Twin
    async def ack(self, message: QueueMessage) -> None:
        """Acknowledge a message; harmless when it was acknowledged before. Raises QueueError."""
        await awaited(self.queue.ack(message))

    @Twin
    async def claim_stale(self, min_idle_ms: int | None = None, count: int = 10) -> list[QueueMessage]:
        """Take over messages that were delivered long ago and not acknowledged; see StreamQueue. Raises QueueError."""
        found: list[QueueMessage] = await awaited(self.queue.claim_stale(min_idle_ms, count))
        return found

    @Twin
    async def run(
        self, *, handler: Callable[[QueueMessage, Tx], object], db_factory: DbFactory[Tx] | AsyncDbFactory[Tx]
    ) -> None:
        """Until `stop`: fetch a message, call `handler(message, tx)`, commit, ack.

        An exception of the handler rolls the transaction back and is raised again. When an ack fails, the transaction
        is already committed, but the message will be redelivered: see `EffectsOnce`. Raises QueueError.
        """
        while not self._stopping:
            message = await awaited(self.next())
            if message is not None:
                await self._process(message, handler, db_factory)

    @Twin
    async def run_claim_stale(
        self,
        *,
        handler: Callable[[QueueMessage, Tx], object],
        db_factory: DbFactory[Tx] | AsyncDbFactory[Tx],
        min_idle_ms: int | None = None,
        count: int = 10,
    ) -> int:
        """Process at most `count` stale messages as `run` does, taking over one at a time. Return how many.

        This is one pass; call it as often as needed. It also ends at `stop`, or when no message is stale. Raises
        QueueError.
        """
        for done in range(count):
            stale = [] if self._stopping else await awaited(self.claim_stale(min_idle_ms, 1))
            if not stale:
                return done
            await self._process(stale[0], handler, db_factory)
        return count

    async def _process(self, message: QueueMessage, handler: Callable[..., object], db_factory: Any) -> None:
        tx = await awaited(db_factory.begin())
        async with committed(tx):
            await awaited(handler(message, tx))
        await awaited(self.ack(message))

    @Twin
    async def close(self) -> None:
        """Close the connections. Messages that are not acknowledged stay pending."""
        await awaited(self.queue.close())


class QueueConsumer(ConsumerBase, Blocking):
    """One consumer of a group. `stop` may be called from any thread and from a signal handler."""

    _queue_class = StreamQueue

    def iter_messages(self) -> Iterator[QueueMessage]:
        """Yield new messages as they arrive, until `stop`. Raises QueueError."""
        while not self._stopping:
            message = self.next()
            if message is not None:
                yield message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncQueueConsumer(ConsumerBase, Awaited):
    """The asyncio version of QueueConsumer. `stop` may be called from the event loop and from a signal handler."""

    _queue_class = AsyncStreamQueue

    async def iter_messages(self) -> AsyncIterator[QueueMessage]:
        """Yield new messages as they arrive, until `stop`. Raises QueueError."""
        while not self._stopping:
            message = await self.next()
            if message is not None:
                yield message

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
