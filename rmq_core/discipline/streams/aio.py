"""`AsyncStreamQueue`: a stream and its group, native and as a WorkQueue, run by the asyncio drivers."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from rmq_core.discipline.streams.config import CAPABILITIES, QueueConfig
from rmq_core.discipline.streams.engine import StreamEngine, engine_of
from rmq_core.discipline.streams.messages import QueueMessage
from rmq_core.discipline.streams.operations import claiming, inspecting, native, publishing, settling
from rmq_core.envelope.codec import Message, MessageRef
from rmq_core.events import OnEvent
from rmq_core.exchange import Exchange
from rmq_core.messages import Lease
from rmq_core.queue.aio import AsyncFacade, method
from rmq_core.reports import SettleReport

P = ParamSpec("P")
R = TypeVar("R")


def once(
    operation: Callable[Concatenate[StreamEngine, P], Exchange[R]],
) -> Callable[Concatenate[AsyncStreamQueue, P], Coroutine[Any, Any, R]]:
    """The method that runs an operation in one attempt."""

    def call(self: AsyncStreamQueue, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return self._native.run(operation(self._engine, *args, **kwargs))

    return functools.update_wrapper(call, operation)  # type: ignore[return-value]


class AsyncStreamQueue(AsyncFacade[StreamEngine]):
    """A Redis stream, read by one consumer of a group; the asyncio twin of StreamQueue.

    `StreamQueue(redis, config)` or `StreamQueue(redis, name, config)`; `redis` is a redis.asyncio client, a
    RedisSettings or a URL. enqueue, read, ack of a QueueMessage, claim_stale and backlog_stats make one attempt and
    raise QueueError; the methods of WorkQueue resend what got no answer. `on_event` gets a QueueEvent after each step.
    """

    discipline = "streams"
    capabilities = CAPABILITIES
    _extend_all = staticmethod(claiming.extend_all)
    _leave = staticmethod(settling.give_back_unanswered)

    def __init__(
        self, redis: Any, name: str | QueueConfig, config: QueueConfig | None = None, *, on_event: OnEvent | None = None
    ) -> None:
        from rmq_core.exchange.once import async_once_driver  # noqa: PLC0415  loads redis-py

        super().__init__(redis, engine_of(name, config, on_event))
        self.config = self._engine.config
        self._native = async_once_driver(self.client, self._engine.prefix)

    enqueue = once(native.enqueue)
    read = once(native.read)
    claim_stale = once(native.claim_stale)
    backlog_stats = once(native.backlog_stats)

    publish = method(publishing.publish)
    publish_many = method(publishing.publish_many)
    claim = method(claiming.claim)
    extend = method(claiming.extend)
    nack = method(settling.nack)
    release = method(settling.release)
    backlog = method(inspecting.backlog)
    stats = method(inspecting.stats)
    peek = method(inspecting.peek)
    dead_letters = method(inspecting.dead_letters)
    redrive = method(inspecting.redrive)
    purge = method(inspecting.purge)
    trim = method(inspecting.trim)

    async def ack(
        self, lease: Lease | QueueMessage, messages: Sequence[Message | MessageRef] | None = None
    ) -> SettleReport:
        """Finish a message that `read` returned, in one attempt; or the messages of a lease, or some of them.

        Acknowledging a message twice is no error, the second report says 0. Raises LeaseLost for a whole lease that is
        gone.
        """
        if isinstance(lease, QueueMessage):
            return SettleReport(await self._native.run(native.acknowledge(self._engine, lease)))
        return await self._driver.run(settling.ack(self._engine, lease, messages))

    async def messages(self, lease: Lease) -> AsyncIterator[Message]:
        """The messages of a lease, in order, without those that were settled here one by one."""
        for message in lease.messages:
            if message.index not in lease.fate.done:
                yield message

    async def close(self) -> None:
        """Give back what claims took whose answer never came, and close the connections. Pending messages stay so."""
        try:
            await super().close()
        finally:
            await self._native.close()
