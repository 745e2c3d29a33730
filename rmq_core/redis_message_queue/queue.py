"""`RedisMessageQueue`, blocking, and the coroutines that both queues share.

A foreign gateway need not have the methods for operators; GatewayContractError then names the one that it lacks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from math import inf
from time import monotonic, perf_counter
from typing import Any, ClassVar, Concatenate, NamedTuple, ParamSpec, TypeVar

from rmq_core.errors import CleanupFailedError, ConfigurationError, GatewayContractError, QueueDrainedError
from rmq_core.events import EventOutcome
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.kernel.base import shown_as
from rmq_core.redis_message_queue import config, gateway
from rmq_core.redis_message_queue.config import EventOperation, PayloadRules, digest_of_text
from rmq_core.redis_message_queue.gateway import BLOCKING, Gateway, IoMode, RedisGatewayBase, Stateful
from rmq_core.redis_message_queue.heartbeat import Beat, LeaseHeartbeat
from rmq_core.redis_message_queue.operations import SEPARATOR, QueueKeyManager
from rmq_core.redis_message_queue.state import Inside, QueueState, warn
from rmq_core.redis_message_queue.stored import ClaimedMessage, MessageData, Received
from rmq_core.running import stepped

PURGEABLE = ("pending", "completed", "failed", "dead_letter")
PARTS = ("pending", "processing", "completed", "failed", "dead_letter")
_LOOK_S = 0.01
_log = logging.getLogger("rmq")


class QueueSizes(NamedTuple):
    """How many messages each part of a queue holds; None for a part that is switched off."""

    pending: int
    processing: int
    completed: int | None
    failed: int | None
    dead_letter: int | None


async def publish(body: QueueState, message: str | dict[str, Any]) -> bool:
    """Add a message: text, or a dict that is delivered as JSON. Return False for a duplicate.

    Raises TypeError for anything else and for keys that are not str, ValueError for NaN and lone surrogates,
    QueueBackpressureError when there is no room, QueueDrainedError after `drain`.
    """
    began = perf_counter()
    with Inside(body, body.publishing):
        try:
            fresh = await _offer(body, message)
        except Exception as error:  # reported and raised again
            await body.tell(EventOperation.PUBLISH, EventOutcome.FAILURE, error=error, began=began)
            raise body.about(error, "publish") from error.__cause__
        if fresh:
            await body.tell(EventOperation.PUBLISH, began=began)
        else:
            await body.tell(EventOperation.PUBLISH_DEDUP_HIT, EventOutcome.SKIPPED, began=began)
        return fresh


async def _offer(body: QueueState, message: object) -> bool:
    if body.draining:
        raise QueueDrainedError("queue is drained")
    text = body.payload.serialize(message)
    key = await _key_of(body, message, text)
    if key is None:
        await body.ask("add_message", type(None), body.key.pending, text)
        return True
    fresh: bool = await body.ask("publish_message", bool, body.key.pending, text, body.key.deduplication(key))
    return fresh


async def _key_of(body: QueueState, message: object, text: str) -> str | None:
    rule = body.deduplication
    if not rule.enabled:
        return None
    key: Any = text
    if rule.key_of is not None and rule.custom:
        key = await body.call("get_deduplication_key", rule.key_of, message)
    elif rule.key_of is not None:
        key = digest_of_text(text)
    if not isinstance(key, str):
        raise TypeError(f"'get_deduplication_key' must return a str, not {type(key).__name__}")
    if not key:
        raise ConfigurationError("the deduplication key is empty: all messages with it would count as duplicates")
    return key


async def drain(body: QueueState, timeout: float | None = None) -> bool:
    """Take no new work: `publish` raises, `process_message` yields None. Running handlers are not interrupted.

    Waits at most `timeout` seconds for publishes in progress and releases claims whose reply may have been lost.
    Returns False if some are left; call it again then. With a timeout of 0 it neither waits nor releases claims. Other
    objects of this queue are not affected.
    """
    if timeout is not None:
        config.number("timeout", timeout)
    body.draining = True
    until = inf if timeout is None else monotonic() + timeout
    while body.others(body.publishing) or (timeout != 0 and body.others(body.claiming)):
        if monotonic() >= until:
            return False
        await body.io_mode.pause(min(_LOOK_S, until - monotonic()))
    body.drained = True
    return await recover(body, until, once=timeout == 0)


async def recover(body: QueueState, until: float, *, once: bool = False) -> bool:
    """Release claims whose reply never arrived. Return True when none is left."""
    if body.channel is None or not body.channel.engine.unanswered:
        return True
    if once:
        return False
    recovered = False
    try:
        left = None if until == inf else max(0.0, until - monotonic())
        recovered = await body.ask("recover_claims", bool, body.key.processing, left, finish=True)
    except Exception as error:  # drain can be called again
        _log.warning("claims without a reply could not be released: %s", error)
    await body.tell_noted()
    return recovered


async def stats(body: QueueState) -> QueueSizes:
    """Return how many messages each part of the queue holds."""
    logs = body.logs
    absent = {name for name, cap in (("completed", logs.completed), ("failed", logs.failed)) if cap == 0}
    if body.gateway.dead_letter_queue is None:
        absent.add("dead_letter")
    sizes: dict[str, Any] = dict.fromkeys(PARTS)
    for part in (part for part in PARTS if part not in absent):
        sizes[part] = await body.ask("queue_length", int, getattr(body.key, part))
    return QueueSizes(**sizes)


async def peek(body: QueueState, count: int = 1, *, source: str = "pending") -> list[MessageData]:
    """Return messages of `pending`, `processing`, `completed`, `failed` or `dead_letter` without moving them."""
    config.whole("count", count)
    found = await body.ask("peek_messages", list, _part(body, source, "source", PARTS), count)
    return [Received.of(message, strict=False).message for message in found]


async def redrive_dead_letters(body: QueueState, max_messages: int | None = None) -> int:
    """Move the oldest dead letters back, to be delivered as often as new messages. Return how many."""
    config.whole_or_none("max_messages", max_messages)
    source = _part(body, "dead_letter", "source", PARTS)
    moved: int = await body.ask("redrive_messages", int, source, body.key.pending, max_messages)
    return moved


async def purge(body: QueueState, *, target: str) -> int:
    """Delete all messages of `pending`, `completed`, `failed` or `dead_letter`. Return how many."""
    if target == "processing":
        raise ConfigurationError("'target': messages being processed cannot be purged; they complete or expire")
    removed: int = await body.ask("purge_queue", int, _part(body, target, "target", PURGEABLE))
    return removed


def _part(body: QueueState, name: str, parameter: str, allowed: tuple[str, ...]) -> str:
    if name not in allowed:
        raise ConfigurationError(f"'{parameter}' must be one of {', '.join(allowed)}, not {name!r}")
    if name == "dead_letter" and body.gateway.dead_letter_queue is None:
        raise ConfigurationError("this queue has no dead letters; set 'max_delivery_count'")
    key: str = getattr(body.key, name)
    return key


_STALE = (
    "the lease of a message was lost before it was settled: it will be, or was, delivered again; "
    "shorten the handler, raise visibility_timeout_seconds or set heartbeat_interval_seconds"
)
_PARTING_S = 5
_IDLE_S = 0.02
_CLAIMED = (ClaimedMessage, str, bytes, type(None))


class NotAcknowledged(BaseException):
    """Raised to leave a `with` block without settling its message."""


LEFT_ALONE = (KeyboardInterrupt, SystemExit, GeneratorExit, NotAcknowledged)
"""Exceptions that leave the message unsettled, so that it is redelivered."""


async def claim(body: QueueState) -> Received | None:
    """Return the next message, or None. The caller must settle a message with `succeed` or `fail`."""
    began = perf_counter()
    with Inside(body, body.claiming):
        claimed = None if body.draining else await _wait(body, began)
        if body.draining and claimed is None:
            await recover(body, monotonic() + _PARTING_S)
    if claimed is None:
        await body.tell(EventOperation.CLAIM_EMPTY, EventOutcome.SKIPPED, began=began)
        if body.draining:
            await body.io_mode.pause(_IDLE_S)  # keeps a caller that claims in a loop from spinning
        return None
    try:
        if body.leased and not isinstance(claimed, ClaimedMessage):
            raise GatewayContractError(
                "gateway.wait_for_message_and_move() must return ClaimedMessage when the gateway has a visibility "
                f"timeout, not {type(claimed).__name__}"
            )
        received = Received.of(claimed, strict=body.strict_envelopes)
        await body.tell(EventOperation.CLAIM, began=began, of=received)
    except BaseException:
        body.keep(claimed)
        raise
    return received


async def _wait(body: QueueState, began: float) -> ClaimedMessage | MessageData | None:
    try:
        claimed: ClaimedMessage | MessageData | None = await body.ask(
            "wait_for_message_and_move", _CLAIMED, body.key.pending, body.key.processing
        )
    except Exception as error:  # reported and raised again
        await body.tell_noted()
        await body.tell(EventOperation.CLAIM, EventOutcome.FAILURE, error=error, began=began)
        raise body.about(error, "claim") from error.__cause__
    await body.tell_noted()
    if claimed is not None and body.draining and body.keep(claimed):
        return None  # the queue was drained meanwhile, so the claim is released
    return claimed


async def succeed(body: QueueState, received: Received, began: float) -> None:
    """Acknowledge a message after its handler succeeded."""
    cleaning = perf_counter()
    log, logs = body.key.completed, body.logs.completed != 0
    try:
        applied = await _settle(body, received, log if logs else None, body.logs.completed)
    except Exception as error:
        await body.tell(EventOperation.CLEANUP_FAILED, EventOutcome.FAILURE, error=error, began=cleaning, of=received)
        failed = CleanupFailedError("the handler succeeded, but its message could not be acknowledged")
        raise body.about(failed, "ack", received) from error
    if logs:
        outcome = EventOutcome.SUCCESS if applied else EventOutcome.SKIPPED
        await body.tell(EventOperation.COMPLETED, outcome, began=began, of=received, destination_queue=log)
    await _tell_end(body, EventOperation.ACK, received, cleaning, applied=applied)


async def fail(body: QueueState, received: Received, error: BaseException, began: float) -> None:
    """Settle a message after its handler raised.

    An error while settling is only logged, and the handler's error propagates. An interruption while settling is raised
    with the handler's error as its cause, because the program has to end.
    """
    try:
        await _put_away(body, received, error, began)
    except BaseException as interruption:
        _log.error("interrupted while a message was settled after its handler failed", exc_info=error)
        raise interruption from error


async def _put_away(body: QueueState, received: Received, error: BaseException, began: float) -> None:
    log, failed = body.key.failed if body.logs.failed != 0 else None, EventOutcome.FAILURE
    await body.tell(EventOperation.FAILED, failed, error=error, began=began, of=received, destination_queue=log)
    cleaning = perf_counter()
    try:
        applied = await _settle(body, received, log, body.logs.failed)
    except Exception as failure:  # reported; the handler's own error propagates
        text = "a message could not be settled after its handler failed"
        await body.complain(text, EventOperation.CLEANUP_FAILED, error=failure, began=cleaning, of=received)
        return
    await _tell_end(body, EventOperation.NACK, received, cleaning, applied=applied)


async def _settle(body: QueueState, received: Received, log: str | None, cap: int | None) -> bool:
    token: dict[str, Any] = {} if received.token is None else {"lease_token": received.token}
    source, stored = body.key.processing, received.stored
    applied: bool
    if log is None:
        applied = await body.ask("remove_message", bool, source, stored, finish=True, **token)
        return applied
    applied = await body.ask("move_message", bool, source, log, stored, finish=True, **token)
    if cap is not None and (applied or not token):
        await _trim(body, log, cap)
    return applied


async def _trim(body: QueueState, log: str, cap: int) -> None:
    try:
        await body.ask("trim_queue", object, log, cap, finish=True)
    except Exception as error:  # the next message trims again
        _log.warning("%s could not be trimmed", log, exc_info=error)
        await body.tell(EventOperation.TRIM_FAILED, EventOutcome.FAILURE, error=error, destination_queue=log)
        warn(f"{log} could not be trimmed ({type(error).__name__}); it is longer than configured")


async def _tell_end(
    body: QueueState, operation: EventOperation, received: Received, began: float, *, applied: bool
) -> None:
    outcome = EventOutcome.SUCCESS if applied else EventOutcome.SKIPPED
    await body.tell(operation, outcome, began=began, of=received)
    if not applied and received.token is not None:
        await body.complain(_STALE, EventOperation(f"stale_lease_{operation}"), outcome=outcome, of=received)


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


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def method(operation: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Stateful[S], P], R]:
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

    publish = method(publish)
    drain = method(drain)
    stats = method(stats)
    peek = method(peek)
    redrive_dead_letters = method(redrive_dead_letters)
    purge = method(purge)

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
