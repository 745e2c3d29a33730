"""`RedisMessageQueue`, blocking, and the base that it shares with the asyncio one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from time import perf_counter
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from rmq_core.errors import ConfigurationError, GatewayContractError
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.kernel.base import shown_as
from rmq_core.redis_message_queue import config, gateway
from rmq_core.redis_message_queue.config import PayloadRules
from rmq_core.redis_message_queue.consuming import LEFT_ALONE, NotAcknowledged, claim, fail, succeed
from rmq_core.redis_message_queue.gateway import BLOCKING, Gateway, IoMode, RedisGatewayBase, Stateful
from rmq_core.redis_message_queue.heartbeat import Heartbeats, LeaseHeartbeat
from rmq_core.redis_message_queue.part_names import SEPARATOR, QueueKeyManager
from rmq_core.redis_message_queue.publishing import drain, peek, publish, purge, redrive_dead_letters, stats
from rmq_core.redis_message_queue.state import QueueState
from rmq_core.redis_message_queue.stored import ClaimedMessage, MessageData
from rmq_core.twin import Blocking, Twin, stepped

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def method(operation: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> Twin[P, R]:
    """Return the method that runs an operation on the state of its object."""

    async def call(self: Stateful[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await operation(self._state, *args, **kwargs)

    return Twin(shown_as(operation, call))


class MessageQueueBase(Stateful[QueueState]):
    """A queue of messages, each processed in a `with` block. Made from `client` or, to tune more, from `gateway`.

    deduplication, get_deduplication_key: whether duplicates are refused, and how they are recognised: by default by a
      digest of the content, else by the key that the function returns, or, if it is None, by the literal text.
    enable_completed_queue, enable_failed_queue, max_completed_length, max_failed_length: logs and how many entries
      they keep, None for all.
    visibility_timeout_seconds: after how long an unfinished message is redelivered; None for never, so it is delivered
      at most once. heartbeat_interval_seconds: how often the timeout is renewed while a handler runs.
      on_heartbeat_failure: called when a renewal fails.
    max_delivery_count: deliveries after which a message becomes a dead letter; None for no limit.
    max_pending_length, pending_overload_policy, pending_overload_block_timeout_seconds: how many messages may wait,
      and whether a further one raises QueueBackpressureError, replaces the oldest or waits for room.
    key_separator: text between the queue's name and the names of its parts. interrupt: ends a wait for messages.
    on_event: called with a QueueEvent for each step.
    max_payload_bytes, max_payload_depth, strict_payload_types: limits beyond which `publish` refuses a message.
    strict_envelope_decoding: whether a damaged message of a foreign gateway raises an error; if not, it is delivered
      as its own payload.

    A wrong type raises TypeError, a wrong value or combination ConfigurationError.
    """

    _io_mode: ClassVar[IoMode]
    _gateway_class: ClassVar[type]
    _built_in: ClassVar[type]

    def __init__(
        self,
        name: str,
        *,
        gateway: Any = None,
        client: Any = None,
        deduplication: bool = True,
        enable_completed_queue: bool = False,
        enable_failed_queue: bool = False,
        visibility_timeout_seconds: int | None = config.VISIBILITY_TIMEOUT_S,
        heartbeat_interval_seconds: float | None = None,
        max_completed_length: int | None = config.MAX_LOG,
        max_failed_length: int | None = config.MAX_LOG,
        max_delivery_count: int | None = config.MAX_DELIVERIES,
        max_pending_length: int | None = None,
        pending_overload_policy: str = "raise",
        pending_overload_block_timeout_seconds: float = 1.0,
        key_separator: str = SEPARATOR,
        get_deduplication_key: Callable[[Any], Any] | None = config.digest_of_content,
        interrupt: BaseGracefulInterruptHandler | None = None,
        on_heartbeat_failure: Callable[[], Any] | None = None,
        on_event: Callable[..., Any] | None = None,
        max_payload_bytes: int | None = None,
        max_payload_depth: int | None = None,
        strict_payload_types: bool = False,
        strict_envelope_decoding: bool = False,
    ) -> None:
        key = QueueKeyManager(name, key_separator)
        logs = config.Logs(
            config.log_cap("completed", enable_completed_queue, max_completed_length),
            config.log_cap("failed", enable_failed_queue, max_failed_length),
        )
        same = config.Deduplication(deduplication, get_deduplication_key)
        same.check(asynchronous=self._io_mode.asynchronous)
        pressure = config.Backpressure(
            max_pending_length, pending_overload_policy, pending_overload_block_timeout_seconds
        )
        pressure.check_losses(deduplication=deduplication, max_delivery_count=max_delivery_count)
        config.flag("strict_envelope_decoding", strict_envelope_decoding)
        if on_event is not None:
            config.callback("on_event", on_event, asynchronous=self._io_mode.asynchronous)
        delivery = config.DeliverySettings(
            visibility_timeout_seconds, max_delivery_count, key.dead_letter if max_delivery_count else None
        )
        if gateway is None:
            gateway = self._made(client, interrupt, delivery, pressure)
        else:
            self._check_given(gateway, delivery, pressure, client=client, interrupt=interrupt)
            if isinstance(gateway, RedisGatewayBase):
                gateway.config.backpressure.check_losses(deduplication=deduplication)
        self.key = QueueKeyManager(name, key_separator, gateway.dead_letter_queue)
        if gateway.is_redis_cluster:
            self.key.check_slots()
        timeout = _timeout_of(gateway)
        heartbeat = config.HeartbeatSettings(heartbeat_interval_seconds, on_heartbeat_failure)
        heartbeat.check(visibility_timeout=timeout, asynchronous=self._io_mode.asynchronous)
        _bind(gateway, self.key.pending)
        payload = PayloadRules(max_payload_bytes, max_payload_depth, strict_payload_types)
        self._state = QueueState(
            self.key, gateway, self._io_mode, same, logs, heartbeat, payload, strict_envelope_decoding, on_event
        )

    publish = method(publish)
    drain = method(drain)
    stats = method(stats)
    peek = method(peek)
    redrive_dead_letters = method(redrive_dead_letters)
    purge = method(purge)

    @property
    def is_draining(self) -> bool:
        """Whether `drain` was called on this object: it takes no new work."""
        return self._state.draining

    @property
    def is_drained(self) -> bool:
        """Whether `drain` was called and no publish of another thread or task is in progress any more."""
        return self._state.drained

    def __repr__(self) -> str:
        return f"<RedisMessageQueue name={self.key.name!r} drained={self._state.draining}>"

    def _made(
        self, client: Any, interrupt: Any, delivery: config.DeliverySettings, pressure: config.Backpressure
    ) -> Any:
        if client is None:
            raise ConfigurationError("pass 'client', a redis-py client, or 'gateway'")
        delivery.check()
        return self._built_in(
            redis_client=client,
            message_visibility_timeout_seconds=delivery.visibility_timeout,
            max_delivery_count=delivery.max_count,
            dead_letter_queue=delivery.dead_letter_queue,
            max_pending_length=pressure.max_pending,
            pending_overload_policy=pressure.policy,
            pending_overload_block_timeout_seconds=pressure.block_s,
            interrupt=interrupt,
        )

    def _check_given(
        self, gateway: Any, delivery: config.DeliverySettings, pressure: config.Backpressure, **others: object
    ) -> None:
        if not isinstance(gateway, self._gateway_class):
            wanted = "async" if self._io_mode.asynchronous else "sync"
            hint = "use the matching queue class" if isinstance(gateway, Gateway) else "subclass it"
            raise GatewayContractError(
                f"'gateway' must be an {wanted} AbstractRedisGateway, not {type(gateway).__qualname__}: {hint}"
            )
        config.whole_or_none("visibility_timeout_seconds", delivery.visibility_timeout)
        config.whole_or_none("max_delivery_count", delivery.max_count)
        given = {
            **{name: value is not None for name, value in others.items()},
            "visibility_timeout_seconds": delivery.visibility_timeout not in (None, config.VISIBILITY_TIMEOUT_S),
            "max_delivery_count": delivery.max_count not in (None, config.MAX_DELIVERIES),
            "max_pending_length": pressure.max_pending is not None,
        }
        if any(given.values()):
            names = ", ".join(f"'{name}'" for name, there in given.items() if there)
            raise ConfigurationError(f"{names} cannot be combined with 'gateway'; configure the gateway instead")


def _timeout_of(gateway: Any) -> int | None:
    timeout: int | None = getattr(gateway, "message_visibility_timeout_seconds", None)
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int)):
        raise GatewayContractError(
            f"gateway.message_visibility_timeout_seconds must be an int or None, not {type(timeout).__name__}"
        )
    if timeout is not None and timeout <= 0:
        raise ConfigurationError(f"gateway.message_visibility_timeout_seconds must be above 0, not {timeout}")
    return timeout


def _bind(gateway: Any, pending: str) -> None:
    """Bind a gateway with dead letters to one queue, because it stores all its dead letters in one place."""
    if gateway.max_delivery_count is None:
        return
    if vars(gateway).setdefault("_serves", pending) != pending:
        raise ConfigurationError("a gateway with 'max_delivery_count' serves one queue; make one for each queue")


class GatewayMethods(RedisGatewayBase):
    """The methods of both gateways."""

    publish_message = method(gateway.publish_message)
    add_message = method(gateway.add_message)
    wait_for_message_and_move = method(gateway.wait_for_message_and_move)
    move_message = method(gateway.move_message)
    remove_message = method(gateway.remove_message)
    renew_message_lease = method(gateway.renew_message_lease)
    trim_queue = method(gateway.trim_queue)
    queue_length = method(gateway.queue_length)
    peek_messages = method(gateway.peek_messages)
    redrive_messages = method(gateway.redrive_messages)
    purge_queue = method(gateway.purge_queue)
    recover_claims = method(gateway.recover_claims)


class AbstractRedisGateway(Gateway[bool, None, ClaimedMessage | MessageData | None]):
    """The storage interface of a queue. Subclass it to store messages differently; the queue checks all return values.

    The heartbeat calls `renew_message_lease` from a thread of its own, while other methods may be running.
    """


class RedisGateway(GatewayMethods, AbstractRedisGateway, Blocking):
    __doc__ = RedisGatewayBase.__doc__
    _io_mode = BLOCKING


class ThreadHeartbeat(LeaseHeartbeat):
    """A heartbeat that runs in a thread."""

    def _start(self, heartbeats: Heartbeats) -> None:
        async def pause() -> bool:
            return heartbeats.over.wait(heartbeats.interval)

        self._thread = threading.Thread(
            target=lambda: stepped(heartbeats.run(pause)), name="rmq-lease-heartbeat", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End the heartbeat, and wait briefly for a renewal in progress."""
        self.end()
        if self._heartbeats is not None:
            self._thread.join(self._heartbeats.stop_s)
            if self._thread.is_alive():
                stepped(self._heartbeats.late())


class RedisMessageQueue(MessageQueueBase, Blocking):
    __doc__ = MessageQueueBase.__doc__
    _io_mode, _gateway_class, _built_in = BLOCKING, AbstractRedisGateway, RedisGateway

    @contextmanager
    def process_message(self) -> Iterator[MessageData | None]:
        """Wait some seconds for a message and yield it, or None: a str if the client decodes responses, else bytes.

        The message is finished when the block ends. It is also finished when the block raises; it then goes to the
        failed log if there is one. KeyboardInterrupt, SystemExit and GeneratorExit leave the message to be
        redelivered. Raises CleanupFailedError when the block succeeded but the message could not be acknowledged.
        """
        body = self._state
        received = stepped(claim(body))
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
                stepped(fail(body, received, error, began))
            raise
        else:
            heartbeat.settle()
            stepped(succeed(body, received, began))
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
                    config.dispose(result)
                    raise NotAcknowledged  # skips the end of the block, which would finish the message
        except NotAcknowledged:
            raise TypeError("'handler' returned an awaitable; use RedisMessageQueue of rmq_core.asyncio") from None
        return True

    def close(self, timeout: float | None = None) -> bool:
        """The same as `drain`."""
        return self.drain(timeout)
