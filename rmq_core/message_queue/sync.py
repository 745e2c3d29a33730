"""`RedisMessageQueue` and its gateways, blocking: what differs from `aio` and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from time import perf_counter
from typing import Any, Concatenate, ParamSpec, TypeVar

from rmq_core.errors import RedisMessageQueueError
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.message_queue import checks, consuming, gateway, operations
from rmq_core.message_queue.base import MessageQueueBase, shown
from rmq_core.message_queue.body import Body
from rmq_core.message_queue.consuming import LEFT_ALONE, NotAcknowledged
from rmq_core.message_queue.gateway import Channels, Gateway, RedisGatewayBase, Verb
from rmq_core.message_queue.heartbeat import Heartbeat
from rmq_core.message_queue.stored import ClaimedMessage, MessageData
from rmq_core.message_queue.worlds import BLOCKING, run

P = ParamSpec("P")
R = TypeVar("R")


def verb(ask: Callable[Concatenate[Channels, P], Verb[R]]) -> Callable[Concatenate[RedisGateway, P], R]:
    """The method that asks an engine."""

    def call(self: RedisGateway, /, *args: P.args, **kwargs: P.kwargs) -> R:
        asked = ask(self.channels, *args, **kwargs)
        try:
            result: R = asked.channel.driver.run(asked.exchange, asked.patience)
        except RedisMessageQueueError as error:
            known = asked.meant(error)
            raise known from known.__cause__
        return result

    return shown(call, ask)


def method(
    operation: Callable[Concatenate[Body, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[RedisMessageQueue, P], R]:
    """The method that runs an operation."""

    def call(self: RedisMessageQueue, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(operation(self._body, *args, **kwargs))

    return shown(call, operation)


class AbstractRedisGateway(Gateway, ABC):
    """Redis as a queue sees it. Subclass it to store messages your way; the queue checks what each method returns.

    The heartbeat calls `renew_message_lease` from a thread of its own while others are called.
    """

    @abstractmethod
    def publish_message(self, queue: str, message: str, dedup_key: str) -> bool:
        """Add a message unless `dedup_key` is remembered; whether it was added."""

    @abstractmethod
    def add_message(self, queue: str, message: str) -> None:
        """Add a message."""

    @abstractmethod
    def wait_for_message_and_move(self, from_queue: str, to_queue: str) -> ClaimedMessage | MessageData | None:
        """Claim the next message; None when there is none for some seconds, so that the queue can look around.

        With a visibility timeout, return ClaimedMessage, whose token is the right to settle the message.
        """

    @abstractmethod
    def move_message(
        self, from_queue: str, to_queue: str, message: MessageData, *, lease_token: str | None = None
    ) -> bool:
        """Move a claimed message to a log; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    def remove_message(self, queue: str, message: MessageData, *, lease_token: str | None = None) -> bool:
        """Forget a claimed message; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    def renew_message_lease(
        self,
        queue: str,
        message: MessageData,
        lease_token: str,
        *,
        is_interrupted: BaseGracefulInterruptHandler | None = None,
    ) -> bool:
        """Renew a claim; False when the token is no longer valid. Stop trying once `is_interrupted` says so."""

    @abstractmethod
    def trim_queue(self, queue: str, max_length: int) -> None:
        """Cut a log to its newest entries."""


class RedisGateway(RedisGatewayBase, AbstractRedisGateway):  # noqa: D101  inherited
    __doc__ = RedisGatewayBase.__doc__
    _asynchronous = False

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
        from rmq_core.exchange.public import shared, sync_driver  # noqa: PLC0415  loads redis-py

        return shared(sync_driver, self._client, prefix, retry_budget_s)


class RedisMessageQueue(MessageQueueBase):  # noqa: D101  inherited
    __doc__ = MessageQueueBase.__doc__
    _asynchronous, _gateway_class, _built_in = False, AbstractRedisGateway, RedisGateway
    _world = BLOCKING

    publish = method(operations.publish)
    drain = method(operations.drain)
    stats = method(operations.stats)
    peek = method(operations.peek)
    redrive_dead_letters = method(operations.redrive_dead_letters)
    purge = method(operations.purge)

    @contextmanager
    def process_message(self) -> Iterator[MessageData | None]:
        """Wait some seconds for a message; None when there is none. str if the client decodes, else bytes.

        The message is done when the block ends, and also, for the failed log if there is one, when it raises.
        KeyboardInterrupt, SystemExit and GeneratorExit leave it to be delivered again. Raises CleanupFailedError when
        the block succeeded but Redis could not be told.
        """
        body = self._body
        received = run(consuming.claim(body))
        if received is None:
            yield None
            return
        heartbeat = consuming.start(Heartbeat, body, received)
        began = perf_counter()
        try:
            yield received.message
        except BaseException as error:
            heartbeat.end()
            if not isinstance(error, LEFT_ALONE):
                run(consuming.fail(body, received, error, began))
            raise
        else:
            heartbeat.end()
            run(consuming.succeed(body, received, began))
        finally:
            heartbeat.stop()

    def process_message_callback(self, handler: Callable[[MessageData], object]) -> bool:
        """Process the next message by a function; whether there was a message.

        Raises TypeError, and leaves the message to be delivered again, when the function would have to be awaited.
        """
        try:
            with self.process_message() as message:
                if message is None:
                    return False
                if isawaitable(result := handler(message)):
                    checks.dispose(result)
                    raise NotAcknowledged  # noqa: TRY301  past the end of the block, for which it is not done
        except NotAcknowledged:
            raise TypeError("'handler' returned an awaitable; use RedisMessageQueue of rmq_core.asyncio") from None
        return True

    def close(self, timeout: float | None = None) -> bool:
        """The same as `drain`."""
        return self.drain(timeout)
