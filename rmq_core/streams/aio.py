"""`AsyncStreamQueue`: a stream and its group, with its own methods and those of WorkQueue, on the asyncio drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmq_core.aio import AsyncFacade
from rmq_core.envelope.codec import Message, MessageRef
from rmq_core.kernel.base import Part
from rmq_core.messages import Lease
from rmq_core.reports import SettleReport
from rmq_core.streams import native, settling
from rmq_core.streams.queue import StreamAdmin, StreamMethods
from rmq_core.streams.state import QueueMessage, StreamEngine
from rmq_core.twin import Awaited


class AsyncStreamQueue(StreamMethods, AsyncFacade[StreamEngine]):
    """A Redis stream, read by one consumer of a group; the asyncio version of StreamQueue.

    Takes `(redis, config)` or `(redis, name, config)`; `redis` is a redis.asyncio client, a RedisSettings or a URL.
    enqueue, read, ack of a QueueMessage, claim_stale and backlog_stats make one attempt and raise QueueError. The
    methods of WorkQueue resend a request that got no reply. `on_event` gets a QueueEvent after each step.
    """

    admin = Part(StreamAdmin[Awaited])

    def _connect(self, redis: Any) -> None:
        from rmq_core.exchange.once import async_once_driver  # loads redis-py

        super()._connect(redis)
        self._native = async_once_driver(self.client, self._engine.prefix)

    async def ack(
        self, lease: Lease | QueueMessage, messages: Sequence[Message | MessageRef] | None = None
    ) -> SettleReport:
        """Finish a message that `read` returned, in one attempt; or all messages of a lease, or some of them.

        Acknowledging a message twice is no error: the second report says 0. Raises LeaseLost if `messages` is None and
        the lease is lost.
        """
        if isinstance(lease, QueueMessage):
            return SettleReport(await self._native.run(native.acknowledge(self._engine, lease)))
        return await self._driver.run(settling.ack(self._engine, lease, messages))

    async def close(self) -> None:
        """Release messages of claims whose reply was lost, and close the connections. Other messages stay pending."""
        try:
            await super().close()
        finally:
            await self._native.close()
