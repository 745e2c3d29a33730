"""`RedisMessageQueue` and its gateways, blocking: only the code that differs from `aio`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from time import perf_counter
from typing import Any, Concatenate, ParamSpec, TypeVar

from rmq_core.compat import checks, consuming, gateway_methods, queue_methods
from rmq_core.compat.base import MessageQueueBase
from rmq_core.compat.consuming import LEFT_ALONE, NotAcknowledged
from rmq_core.compat.gateway import Gateway, RedisGatewayBase
from rmq_core.compat.heartbeat import Beat, LeaseHeartbeat
from rmq_core.compat.io_mode import BLOCKING, Stateful
from rmq_core.compat.stored import ClaimedMessage, MessageData
from rmq_core.queue.base import shown_as
from rmq_core.queue.twin import stepped

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def method(
    operation: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Stateful[S], P], R]:
    """Return the method that runs an operation."""

    def call(self: Stateful[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return stepped(operation(self._state, *args, **kwargs))

    return shown_as(operation, call)


class AbstractRedisGateway(Gateway[bool, None, ClaimedMessage | MessageData | None]):
    """The storage interface of a queue. Subclass it to store messages differently; the queue checks all return values.

    The heartbeat calls `renew_message_lease` from a thread of its own, while other methods may be running.
    """


class RedisGateway(RedisGatewayBase, AbstractRedisGateway):
    __doc__ = RedisGatewayBase.__doc__
    _io_mode = BLOCKING

    publish_message = method(gateway_methods.publish_message)
    add_message = method(gateway_methods.add_message)
    wait_for_message_and_move = method(gateway_methods.wait_for_message_and_move)
    move_message = method(gateway_methods.move_message)
    remove_message = method(gateway_methods.remove_message)
    renew_message_lease = method(gateway_methods.renew_message_lease)
    trim_queue = method(gateway_methods.trim_queue)
    queue_length = method(gateway_methods.queue_length)
    peek_messages = method(gateway_methods.peek_messages)
    redrive_messages = method(gateway_methods.redrive_messages)
    purge_queue = method(gateway_methods.purge_queue)
    recover_claims = method(gateway_methods.recover_claims)


class ThreadHeartbeat(LeaseHeartbeat):
    """A heartbeat that runs in a thread."""

    def _start(self, beat: Beat) -> None:
        async def pause() -> bool:
            return beat.over.wait(beat.interval)

        self._thread = threading.Thread(
            target=lambda: stepped(beat.run(pause)), name="rmq-lease-heartbeat", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the heartbeat, and wait briefly for a renewal in progress."""
        self.end()
        if self._beat is not None:
            self._thread.join(self._beat.stop_s)
            if self._thread.is_alive():
                stepped(self._beat.late())


class RedisMessageQueue(MessageQueueBase):
    __doc__ = MessageQueueBase.__doc__
    _io_mode, _gateway_class, _built_in = BLOCKING, AbstractRedisGateway, RedisGateway

    publish = method(queue_methods.publish)
    drain = method(queue_methods.drain)
    stats = method(queue_methods.stats)
    peek = method(queue_methods.peek)
    redrive_dead_letters = method(queue_methods.redrive_dead_letters)
    purge = method(queue_methods.purge)

    @contextmanager
    def process_message(self) -> Iterator[MessageData | None]:
        """Wait some seconds for a message and yield it, or None: a str if the client decodes responses, else bytes.

        The message is finished when the block ends. It is also finished when the block raises; it then goes to the
        failed log if there is one. KeyboardInterrupt, SystemExit and GeneratorExit leave the message to be
        redelivered. Raises CleanupFailedError when the block succeeded but the message could not be acknowledged.
        """
        body = self._state
        received = stepped(consuming.claim(body))
        if received is None:
            yield None
            return
        heartbeat = ThreadHeartbeat(body, received)
        began = perf_counter()
        try:
            yield received.message
        except BaseException as error:
            if not isinstance(error, LEFT_ALONE):
                heartbeat.settle()
                stepped(consuming.fail(body, received, error, began))
            raise
        else:
            heartbeat.settle()
            stepped(consuming.succeed(body, received, began))
        finally:
            heartbeat.stop()

    def process_message_callback(self, handler: Callable[[MessageData], object]) -> bool:
        """Process the next message with a function. Return False if none comes.

        Raises TypeError, and leaves the message to be redelivered, if the function returns an awaitable.
        """
        try:
            with self.process_message() as message:
                if message is None:
                    return False
                if isawaitable(result := handler(message)):
                    checks.dispose(result)
                    raise NotAcknowledged  # skips the end of the block, which would finish the message
        except NotAcknowledged:
            raise TypeError("'handler' returned an awaitable; use RedisMessageQueue of rmq_core.asyncio") from None
        return True

    def close(self, timeout: float | None = None) -> bool:
        """The same as `drain`."""
        return self.drain(timeout)
