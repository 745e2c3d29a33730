"""The asyncio `RedisMessageQueue`, its gateways, and all names that go with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

from rmq_core.errors import (
    CleanupFailedError,
    ConfigurationError,
    GatewayContractError,
    QueueBackpressureError,
    QueueDrainedError,
    RedisMessageQueueError,
)
from rmq_core.events import EventOutcome, QueueEvent
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler, GracefulInterruptHandler
from rmq_core.redis_message_queue import consuming
from rmq_core.redis_message_queue.config import EventOperation, LuaScriptError, RetryBudgetExhaustedError
from rmq_core.redis_message_queue.consuming import LEFT_ALONE
from rmq_core.redis_message_queue.gateway import ASYNCIO, Gateway, RedisGatewayBase
from rmq_core.redis_message_queue.heartbeat import Heartbeats, LeaseHeartbeat
from rmq_core.redis_message_queue.queue import GatewayMethods, MessageQueueBase
from rmq_core.redis_message_queue.stored import ClaimedMessage, MessageData
from rmq_core.twin import Awaited

R = TypeVar("R")
_Coroutine: TypeAlias = Coroutine[Any, Any, R]


class AbstractRedisGateway(
    Gateway[_Coroutine[bool], _Coroutine[None], _Coroutine[ClaimedMessage | MessageData | None]]
):
    """The storage interface of a queue. Subclass it to store messages differently; the queue checks all return values.

    Its methods are coroutine functions. The heartbeat calls `renew_message_lease` from a task of its own, while other
    methods may be running.
    """


class RedisGateway(GatewayMethods, AbstractRedisGateway, Awaited):
    __doc__ = RedisGatewayBase.__doc__
    _io_mode = ASYNCIO


class TaskHeartbeat(LeaseHeartbeat):
    """A heartbeat that runs in a task."""

    def _start(self, heartbeats: Heartbeats) -> None:
        async def pause() -> bool:
            await asyncio.sleep(heartbeats.interval)
            return heartbeats.over.is_set()

        self._task = asyncio.get_running_loop().create_task(heartbeats.run(pause), name="rmq-lease-heartbeat")

    async def stop(self) -> None:
        """End the heartbeat and cancel a renewal in progress; wait only briefly for a renewal that ignores this."""
        self.end()
        if self._heartbeats is not None:
            self._task.cancel()
            done, _ = await asyncio.wait({self._task}, timeout=self._heartbeats.stop_s)
            if not done:
                await self._heartbeats.late()


class RedisMessageQueue(MessageQueueBase, Awaited):
    __doc__ = MessageQueueBase.__doc__
    _io_mode, _gateway_class, _built_in = ASYNCIO, AbstractRedisGateway, RedisGateway

    @asynccontextmanager
    async def process_message(self) -> AsyncIterator[MessageData | None]:
        """Wait some seconds for a message and yield it, or None: a str if the client decodes responses, else bytes.

        The message is finished when the block ends. It is also finished when the block raises; it then goes to the
        failed log if there is one. KeyboardInterrupt, SystemExit and cancellation of the task leave the message to be
        redelivered. Raises CleanupFailedError when the block succeeded but the message could not be acknowledged.
        """
        body = self._state
        received = await consuming.claim(body)
        if received is None:
            yield None
            return
        heartbeat = TaskHeartbeat(body, received)
        began = perf_counter()
        try:
            yield received.message
        except BaseException as error:
            if not _left_alone(error):
                heartbeat.settle()
                await consuming.fail(body, received, error, began)
            raise
        else:
            heartbeat.settle()
            await consuming.succeed(body, received, began)
        finally:
            await heartbeat.stop()

    async def process_message_callback(self, handler: Callable[[MessageData], Awaitable[object] | object]) -> bool:
        """Process the next message with a function, whose result is awaited if needed. Return False if none comes."""
        async with self.process_message() as message:
            if message is None:
                return False
            if isinstance(result := handler(message), Awaitable):
                await result
        return True

    async def aclose(self, timeout: float | None = None) -> bool:
        """The same as `drain`."""
        return await self.drain(timeout)


def _left_alone(error: BaseException) -> bool:
    """Return whether an error leaves the message to be redelivered.

    A CancelledError does so only if this task was cancelled, not if the handler raised that of another task.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, LEFT_ALONE)


__all__ = [
    "AbstractRedisGateway", "BaseGracefulInterruptHandler", "ClaimedMessage", "CleanupFailedError",
    "ConfigurationError", "EventOperation", "EventOutcome", "GatewayContractError", "GracefulInterruptHandler",
    "LuaScriptError", "MessageData", "QueueBackpressureError", "QueueDrainedError", "QueueEvent", "RedisGateway",
    "RedisMessageQueue", "RedisMessageQueueError", "RetryBudgetExhaustedError",
]  # fmt: skip
