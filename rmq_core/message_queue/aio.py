"""`RedisMessageQueue` and its gateways, for asyncio: what differs from `sync` and nothing else."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any, Concatenate, ParamSpec, TypeVar

from rmq_core.errors import RedisMessageQueueError
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.message_queue import consuming, gateway, operations
from rmq_core.message_queue.base import MessageQueueBase, shown
from rmq_core.message_queue.body import Body
from rmq_core.message_queue.consuming import LEFT_ALONE
from rmq_core.message_queue.gateway import Channels, Gateway, RedisGatewayBase, Verb
from rmq_core.message_queue.heartbeat import AsyncHeartbeat
from rmq_core.message_queue.stored import ClaimedMessage, MessageData
from rmq_core.message_queue.worlds import ASYNCIO

P = ParamSpec("P")
R = TypeVar("R")


def verb(
    ask: Callable[Concatenate[Channels, P], Verb[R]],
) -> Callable[Concatenate[RedisGateway, P], Coroutine[Any, Any, R]]:
    """The method that asks an engine."""

    async def call(self: RedisGateway, /, *args: P.args, **kwargs: P.kwargs) -> R:
        asked = ask(self.channels, *args, **kwargs)
        try:
            result: R = await asked.channel.driver.run(asked.exchange, asked.patience)
        except RedisMessageQueueError as error:
            known = asked.meant(error)
            raise known from known.__cause__
        return result

    return shown(call, ask)


def method(
    operation: Callable[Concatenate[Body, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[RedisMessageQueue, P], Coroutine[Any, Any, R]]:
    """The method that awaits an operation."""

    async def call(self: RedisMessageQueue, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await operation(self._body, *args, **kwargs)

    return shown(call, operation)


class AbstractRedisGateway(Gateway, ABC):
    """Redis as a queue sees it. Subclass it to store messages your way; the queue checks what each method returns.

    The heartbeat calls `renew_message_lease` from a task of its own while others are called.
    """

    @abstractmethod
    async def publish_message(self, queue: str, message: str, dedup_key: str) -> bool:
        """Add a message unless `dedup_key` is remembered; whether it was added."""

    @abstractmethod
    async def add_message(self, queue: str, message: str) -> None:
        """Add a message."""

    @abstractmethod
    async def wait_for_message_and_move(self, from_queue: str, to_queue: str) -> ClaimedMessage | MessageData | None:
        """Claim the next message; None when there is none for some seconds, so that the queue can look around.

        With a visibility timeout, return ClaimedMessage, whose token is the right to settle the message.
        """

    @abstractmethod
    async def move_message(
        self, from_queue: str, to_queue: str, message: MessageData, *, lease_token: str | None = None
    ) -> bool:
        """Move a claimed message to a log; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    async def remove_message(self, queue: str, message: MessageData, *, lease_token: str | None = None) -> bool:
        """Forget a claimed message; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    async def renew_message_lease(
        self,
        queue: str,
        message: MessageData,
        lease_token: str,
        *,
        is_interrupted: BaseGracefulInterruptHandler | None = None,
    ) -> bool:
        """Renew a claim; False when the token is no longer valid. Stop trying once `is_interrupted` says so."""

    @abstractmethod
    async def trim_queue(self, queue: str, max_length: int) -> None:
        """Cut a log to its newest entries."""


class RedisGateway(RedisGatewayBase, AbstractRedisGateway):  # noqa: D101  inherited
    __doc__ = RedisGatewayBase.__doc__
    _asynchronous = True

    publish_message = verb(gateway.publish_message)
    add_message = verb(gateway.add_message)
    wait_for_message_and_move = verb(gateway.wait_for_message_and_move)
    move_message = verb(gateway.move_message)
    remove_message = verb(gateway.remove_message)
    renew_message_lease = verb(gateway.renew_message_lease)
    trim_queue = verb(gateway.trim_queue)
    queue_length = verb(gateway.queue_length)
    peek_messages = verb(gateway.peek_messages)
    redrive_messages = verb(gateway.redrive_messages)
    purge_queue = verb(gateway.purge_queue)
    recover_claims = verb(gateway.recover_claims)

    def _driver(self, prefix: bytes, retry_budget_s: float) -> Any:
        from rmq_core.exchange.public import async_driver, shared  # noqa: PLC0415  loads redis-py

        return shared(async_driver, self._client, prefix, retry_budget_s)


class RedisMessageQueue(MessageQueueBase):  # noqa: D101  inherited
    __doc__ = MessageQueueBase.__doc__
    _asynchronous, _gateway_class, _built_in = True, AbstractRedisGateway, RedisGateway
    _world = ASYNCIO

    publish = method(operations.publish)
    drain = method(operations.drain)
    stats = method(operations.stats)
    peek = method(operations.peek)
    redrive_dead_letters = method(operations.redrive_dead_letters)
    purge = method(operations.purge)

    @asynccontextmanager
    async def process_message(self) -> AsyncIterator[MessageData | None]:
        """Wait some seconds for a message; None when there is none. str if the client decodes, else bytes.

        The message is done when the block ends, and also, for the failed log if there is one, when it raises.
        KeyboardInterrupt, SystemExit and cancellation of the task leave it to be delivered again. Raises
        CleanupFailedError when the block succeeded but Redis could not be told.
        """
        body = self._body
        received = await consuming.claim(body)
        if received is None:
            yield None
            return
        heartbeat = consuming.start(AsyncHeartbeat, body, received)
        began = perf_counter()
        try:
            yield received.message
        except BaseException as error:
            heartbeat.end()
            if not _left_alone(error):
                await consuming.fail(body, received, error, began)
            raise
        else:
            heartbeat.end()
            await consuming.succeed(body, received, began)
        finally:
            await heartbeat.stop()

    async def process_message_callback(self, handler: Callable[[MessageData], Awaitable[object] | object]) -> bool:
        """Process the next message by a function, awaited if it has to be; whether there was a message."""
        async with self.process_message() as message:
            if message is None:
                return False
            if isinstance(result := handler(message), Awaitable):
                await result
        return True

    async def aclose(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  the documented name
        """The same as `drain`."""
        return await self.drain(timeout)


def _left_alone(error: BaseException) -> bool:
    """A handler may fail with the cancellation of a task of its own; only this task's own leaves the message alone."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, LEFT_ALONE)
