"""The interface of a gateway, the built-in gateway with its methods, and the engines behind it.

Both queues call the gateway and the callbacks of a user; the asyncio queue also awaits their results. Therefore all
operations are coroutines, as `rmq_core/twin.py` describes, and the behaviour of a queue is written once. A method of
the built-in gateway chooses the exchange to run and its retries, and translates the result or the error for the caller.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from time import monotonic
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from rmq_core import errors
from rmq_core.admin.history import flush, one_attempt
from rmq_core.connection.clients import check_gateway_client, decodes, is_cluster
from rmq_core.envelope.codec import new_id
from rmq_core.events import EventOutcome, Operation, QueueEvent
from rmq_core.exchange import Exchange, Interrupted, Patience
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.kernel.keys import LeasedKeys
from rmq_core.leased import managing, publishing, settling
from rmq_core.leased.state import LeasedEngine
from rmq_core.observe.fact import emitting
from rmq_core.redis_message_queue import config, exchanges
from rmq_core.redis_message_queue.config import (
    Backpressure,
    DeliverySettings,
    EventOperation,
    GatewayConfig,
    in_redis_terms,
    retries,
)
from rmq_core.redis_message_queue.part_names import QueuePart, place
from rmq_core.redis_message_queue.stored import ClaimedMessage, MessageData, held, lease_of, token_text

S = TypeVar("S")


class IoMode(NamedTuple):
    """How the two queues differ: whether they await results, how to pause, and the id of the calling thread or task."""

    asynchronous: bool
    pause: Callable[[float], Awaitable[object]]
    me: Callable[[], int]


class Stateful(Generic[S]):
    """Base of a class whose methods run operations on its `_state`."""

    _state: S


async def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251  never runs in an event loop


BLOCKING = IoMode(False, _sleep, threading.get_ident)
ASYNCIO = IoMode(True, asyncio.sleep, lambda: id(asyncio.current_task()))


R = TypeVar("R")

giving_up: ContextVar[Callable[[], bool] | None] = ContextVar("giving_up", default=None)
"""Set by a queue around methods that wait for a message or for room; the function returns True once it is drained."""

_REPORTED: dict[StrEnum, EventOperation] = {
    Operation.RECLAIM: EventOperation.CLAIM_RECLAIM,
    Operation.TAKEOVER: EventOperation.CLAIM_RECLAIM,
    Operation.DEAD: EventOperation.DLQ,
    EventOperation.RETRY_ATTEMPT: EventOperation.RETRY_ATTEMPT,
    EventOperation.RETRY_EXHAUSTED: EventOperation.RETRY_EXHAUSTED,
}


@dataclass(eq=False, slots=True)
class Channel:
    """One queue as seen by one gateway. `noted` holds the events of its engine until the queue reports them."""

    engine: LeasedEngine
    driver: Any
    config: GatewayConfig
    io_mode: IoMode
    noted: deque[QueueEvent] = field(default_factory=lambda: deque(maxlen=1000))

    async def run(self, exchange: Exchange[R], patience: Patience | None = None, attempt: str | None = None) -> R:
        """Run an exchange, by default with the gateway's retries.

        attempt: the id of a claim; if its retries are exhausted, an event with this id is recorded.
        """
        patience = patience or self.config.patience
        try:
            result = self.driver.run(exchange, patience)
            found: R = await result if self.io_mode.asynchronous else result
        except errors.RedisMessageQueueError as error:
            if attempt and isinstance(error, errors.QueueUnavailable) and error.__cause__ is not None:
                self.note(EventOperation.RETRY_EXHAUSTED, attempt, error.__cause__)
            known = in_redis_terms(error, resent=patience.budget_s is not None)
            raise known from known.__cause__
        tally = self.engine.tally
        if tally is not None and tally.noted and monotonic() >= tally.next_at:
            flushed = self.driver.run(flush(self.engine, found), one_attempt())
            if self.io_mode.asynchronous:
                await flushed
        return found

    def listen(self) -> None:
        """Record events from now on."""
        self.engine.sinks = (emitting(self.engine.name, self.noted.append),)

    def note(self, operation: EventOperation, attempt: str, error: BaseException) -> None:
        """Record a failed attempt to claim."""
        if self.engine.sinks:
            event = QueueEvent(
                self.engine.name, operation, EventOutcome.FAILURE, claim_id=attempt,
                exception_type=type(error).__name__, error=error,
            )  # fmt: skip
            self.noted.append(event)

    def new_events(self) -> Iterator[QueueEvent]:
        """Yield the events recorded since the last call, translated into those of RedisMessageQueue."""
        while self.noted:
            event = self.noted.popleft()
            if event.operation == Operation.DEAD:
                delivery = self.config.delivery
                event = replace(
                    event, destination_queue=delivery.dead_letter_queue, delivery_count=delivery.max_count,
                    max_delivery_count=delivery.max_count,
                )  # fmt: skip
            if event.operation in _REPORTED:
                yield replace(event, operation=_REPORTED[event.operation])


class Channels:
    """The engines behind one gateway: one for each queue, created at the first call for that queue."""

    def __init__(self, config: GatewayConfig, client: Any, io_mode: IoMode) -> None:
        self.config, self.decode = config, decodes(client)
        self._client, self._io_mode = client, io_mode
        self._made: dict[str, Channel] = {}
        self._found: dict[str, tuple[Channel, QueuePart]] = {}

    def find(self, key: str) -> tuple[Channel, QueuePart]:
        """Return the channel of the queue that a name belongs to, and the part that it names."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._look_up(key)
        return found

    def log(self, key: str) -> QueuePart:
        """Return the part that a name stands for, regardless of the queue it belongs to."""
        return QueuePart.DEAD_LETTER if key == self.config.delivery.dead_letter_queue else place(key)[1]

    def _look_up(self, key: str) -> tuple[Channel, QueuePart]:
        if key == self.config.delivery.dead_letter_queue and len(self._made) == 1:
            return next(iter(self._made.values())), QueuePart.DEAD_LETTER
        name, part = place(key)
        channel = self._made.get(name)
        if channel is None:
            engine = LeasedEngine(LeasedKeys(name), self.config.leased())
            engine.keys.layouts = ("", "grouped")  # type: ignore[misc, assignment]  # it claims from one place
            engine.look_at = inf  # its arguments are its interface: it follows no settings stored with the queue
            made = Channel(engine, self._driver(engine), self.config, self._io_mode)
            channel = self._made.setdefault(name, made)
        return channel, part

    def _driver(self, engine: LeasedEngine) -> Any:
        from rmq_core.exchange import public  # loads redis-py

        make: Any = public.async_driver if self._io_mode.asynchronous else public.sync_driver
        driver = public.shared(make, self._client, engine.prefix, engine.retry_budget_s)
        driver.layouts = engine.layouts
        return driver

    def patience(
        self,
        most_s: float | None = inf,
        given_up: Callable[[], bool] | None = None,
        noticed: Callable[[Exception], object] | None = None,
    ) -> Patience:
        """Return the retries of a call, for at most `most_s` seconds; None leaves them to the Redis client's policy."""
        budget_s, first_s, longest_s, interrupted, *_ = self.config.patience
        most_s = None if most_s is None or budget_s is None else min(most_s, budget_s)
        return Patience(most_s, first_s, longest_s, either(interrupted, given_up), noticed)


async def publish_message(channels: Channels, queue: str, message: str, dedup_key: str) -> bool:
    """Add a message unless `dedup_key` is remembered. Return whether it was added."""
    return await _publish(channels, queue, message, dedup_key, channels.patience(given_up=giving_up.get()))


async def add_message(channels: Channels, queue: str, message: str) -> None:
    """Add a message."""
    patience = channels.patience(None, giving_up.get())  # sent once: the caller decides whether to publish again
    await _publish(channels, queue, message, None, patience)


async def _publish(channels: Channels, queue: str, message: str, dedup_key: str | None, patience: Patience) -> bool:
    channel, _ = channels.find(queue)
    try:
        published = await channel.run(publishing.publish(channel.engine, message, dedup_key=dedup_key), patience)
    except (errors.QueueFull, Interrupted) as error:
        most, gave_up = channel.engine.config.max_ready, isinstance(error, Interrupted)
        raise errors.QueueBackpressureError(
            f"queue {channel.engine.keys.name!r} has no room: max_pending_length={most} messages wait"
            + ("; the wait for room was given up" if gave_up else "; consume some or raise the limit")
        ) from None
    return published.accepted


async def wait_for_message_and_move(
    channels: Channels,
    from_queue: str,
    to_queue: str,  # noqa: ARG001  the lease records the holder
) -> ClaimedMessage | MessageData | None:
    """Claim the next message. Return None if there is none for some seconds or the wait is interrupted."""
    channel, _ = channels.find(from_queue)
    wait_s, attempt = channels.config.wait, new_id()
    patience = channels.patience(
        wait_s, giving_up.get(), lambda error: channel.note(EventOperation.RETRY_ATTEMPT, attempt, error)
    )
    grant = None if patience.over else await channel.run(exchanges.claim(channel.engine, wait_s), patience, attempt)
    if grant is None:
        return None
    stored = held(grant, decode=channels.decode)
    if channels.config.delivery.visibility_timeout is None:
        return stored
    return ClaimedMessage(stored, token_text(grant.lease))


async def move_message(
    channels: Channels, from_queue: str, to_queue: str, message: MessageData, *, lease_token: str | None = None
) -> bool:
    """Move a claimed message to a log; False, with nothing changed, when the token is no longer valid."""
    return await _finish(channels, from_queue, message, lease_token, to_queue)


async def remove_message(
    channels: Channels, queue: str, message: MessageData, *, lease_token: str | None = None
) -> bool:
    """Delete a claimed message; False, with nothing changed, when the token is no longer valid."""
    return await _finish(channels, queue, message, lease_token)


async def _finish(
    channels: Channels, queue: str, message: MessageData, token: str | None, log: str | None = None
) -> bool:
    channel, _ = channels.find(queue)
    lease = lease_of(channel.engine.name, message, token)
    if lease is None:
        return False
    part = None if log is None else channels.log(log)
    if part is QueuePart.PENDING:
        return await channel.run(exchanges.unless_lost(settling.release(channel.engine, lease)))
    return await channel.run(exchanges.finish(channel.engine, lease, part))


async def renew_message_lease(
    channels: Channels,
    queue: str,
    message: MessageData,  # noqa: ARG001  the token identifies the lease
    lease_token: str,
    *,
    is_interrupted: BaseGracefulInterruptHandler | None = None,
) -> bool:
    """Renew a claim; False when the token is no longer valid. Stop trying once `is_interrupted` is set."""
    channel, _ = channels.find(queue)
    timeout, lease = channels.config.delivery.visibility_timeout, lease_of(channel.engine.name, "", lease_token)
    if timeout is None or lease is None:
        return False
    patience = channels.patience(timeout, is_interrupted.is_interrupted if is_interrupted else None)
    return await channel.run(exchanges.unless_lost(settling.extend(channel.engine, lease)), patience)


async def trim_queue(channels: Channels, queue: str, max_length: int) -> None:
    """Trim a log to its newest entries."""
    channel, part = channels.find(queue)
    await channel.run(exchanges.trim(channel.engine, part, max_length))


async def queue_length(channels: Channels, queue: str) -> int:
    """Return how many messages a part of a queue holds."""
    channel, part = channels.find(queue)
    return await channel.run(exchanges.length(channel.engine, part))


async def peek_messages(channels: Channels, queue: str, count: int) -> list[MessageData]:
    """Return at most `count` payloads of a part of a queue: the next to be delivered, or the newest of a log."""
    channel, part = channels.find(queue)
    payloads = await channel.run(exchanges.peek(channel.engine, part, count))
    return [payload.decode() if channels.decode else payload for payload in payloads]


async def redrive_messages(
    channels: Channels,
    from_queue: str,  # noqa: ARG001  there is one place for dead letters
    to_queue: str,
    max_messages: int | None = None,
) -> int:
    """Move the oldest dead letters back with a fresh delivery budget. Return how many."""
    channel, _ = channels.find(to_queue)
    return await channel.run(managing.redrive(channel.engine, max_messages))


async def purge_queue(channels: Channels, queue: str) -> int:
    """Delete the messages of a part of a queue. Return how many."""
    channel, part = channels.find(queue)
    if part is QueuePart.PROCESSING:
        raise errors.ConfigurationError("messages being processed cannot be purged; let them complete or expire")
    return await channel.run(managing.purge(channel.engine, exchanges.LISTS[part]))


async def recover_claims(channels: Channels, queue: str, budget_s: float | None = None) -> bool:
    """Release claims whose reply never arrived, for at most `budget_s` seconds. Return whether none is left."""
    channel, _ = channels.find(queue)
    patience = channels.config.patience._replace(given_up=None)
    if budget_s is not None:
        until = monotonic() + budget_s
        patience = channels.patience(budget_s)._replace(given_up=lambda: monotonic() >= until, hurried=True)
    try:
        await channel.run(managing.release_unanswered(channel.engine), patience)
    except Interrupted:
        return False
    return not channel.engine.unanswered


def either(one: Callable[[], bool] | None, other: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """Combine two conditions into one that is true when either is; None means no condition."""
    if one is None or other is None:
        return one or other
    return lambda: one() or other()


Flag = TypeVar("Flag")
Done = TypeVar("Done")
Claim = TypeVar("Claim")


class Gateway(ABC, Generic[Flag, Done, Claim]):
    """The interface that a queue uses. The type parameters are the return types of its blocking or asyncio methods.

    Override the properties that apply. A gateway whose claims expire must have
    `message_visibility_timeout_seconds` and return ClaimedMessage.
    """

    @property
    def is_redis_cluster(self) -> bool:
        """Whether the keys of a queue have to share a hash tag."""
        return False

    @property
    def max_delivery_count(self) -> int | None:
        """How often a message is delivered before it becomes a dead letter; None for no limit."""
        return None

    @property
    def dead_letter_queue(self) -> str | None:
        """The name of the queue of dead letters; None if there is none."""
        return None

    @abstractmethod
    def publish_message(self, queue: str, message: str, dedup_key: str) -> Flag:
        """Add a message unless `dedup_key` is remembered. Return whether it was added."""

    @abstractmethod
    def add_message(self, queue: str, message: str) -> Done:
        """Add a message."""

    @abstractmethod
    def wait_for_message_and_move(self, from_queue: str, to_queue: str) -> Claim:
        """Claim the next message. Return None if there is none for some seconds, so that the queue can check its state.

        With a visibility timeout, return ClaimedMessage, whose token is the right to settle the message.
        """

    @abstractmethod
    def move_message(
        self, from_queue: str, to_queue: str, message: MessageData, *, lease_token: str | None = None
    ) -> Flag:
        """Move a claimed message to a log; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    def remove_message(self, queue: str, message: MessageData, *, lease_token: str | None = None) -> Flag:
        """Delete a claimed message; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    def renew_message_lease(
        self,
        queue: str,
        message: MessageData,
        lease_token: str,
        *,
        is_interrupted: BaseGracefulInterruptHandler | None = None,
    ) -> Flag:
        """Renew a claim; False when the token is no longer valid. Stop trying once `is_interrupted` is set."""

    @abstractmethod
    def trim_queue(self, queue: str, max_length: int) -> Done:
        """Trim a log to its newest entries."""


class RedisGatewayBase(Stateful[Channels]):
    """The gateway to the leased engine; `redis_client` is a redis-py client of this io_mode.

    Its methods take the queue names of `queue.key`.

    retry_budget_seconds, retry_max_delay_seconds, retry_initial_delay_seconds: how long and how often calls are
      resent while Redis does not answer; a budget of 0 resends nothing. Publishing a message without deduplication is
      never resent.
    message_deduplication_log_ttl_seconds: for how long the same message counts as a duplicate, 3600 when None.
    message_wait_interval_seconds: how long to wait for a message, 5 when None, not at all when 0.
    message_visibility_timeout_seconds, max_delivery_count, dead_letter_queue, max_pending_length,
      pending_overload_policy, pending_overload_block_timeout_seconds, interrupt: as in RedisMessageQueue.
    """

    _io_mode: ClassVar[IoMode]

    def __init__(
        self,
        *,
        redis_client: Any,
        retry_budget_seconds: int = 120,
        retry_max_delay_seconds: float = 5.0,
        retry_initial_delay_seconds: float = 0.01,
        message_deduplication_log_ttl_seconds: int | None = None,
        message_wait_interval_seconds: int | None = None,
        message_visibility_timeout_seconds: int | None = None,
        max_delivery_count: int | None = None,
        dead_letter_queue: str | None = None,
        max_pending_length: int | None = None,
        pending_overload_policy: str = "raise",
        pending_overload_block_timeout_seconds: float = 1.0,
        interrupt: BaseGracefulInterruptHandler | None = None,
    ) -> None:
        check_gateway_client(redis_client, asynchronous=self._io_mode.asynchronous)
        if interrupt is not None:
            config.instance("interrupt", interrupt, BaseGracefulInterruptHandler, "GracefulInterruptHandler()")
        ttl, wait = message_deduplication_log_ttl_seconds, message_wait_interval_seconds
        self.config = GatewayConfig(
            DeliverySettings(message_visibility_timeout_seconds, max_delivery_count, dead_letter_queue),
            Backpressure(max_pending_length, pending_overload_policy, pending_overload_block_timeout_seconds),
            retries(
                retry_budget_seconds, retry_max_delay_seconds, retry_initial_delay_seconds,
                None if interrupt is None else interrupt.is_interrupted,
            ),
            3600 if ttl is None else ttl,
            5 if wait is None else wait,
        )  # fmt: skip
        self._client = redis_client
        self._state = self.channels = Channels(self.config, redis_client, self._io_mode)

    @property
    def is_redis_cluster(self) -> bool:
        return is_cluster(self._client)

    @property
    def max_delivery_count(self) -> int | None:
        return self.config.delivery.max_count

    @property
    def dead_letter_queue(self) -> str | None:
        return self.config.delivery.dead_letter_queue

    @property
    def message_visibility_timeout_seconds(self) -> int | None:
        """For how many seconds a claim holds its message; None for ever."""
        return self.config.delivery.visibility_timeout
