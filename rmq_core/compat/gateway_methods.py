"""The engines behind the built-in gateway, and the methods of the gateway.

Each method chooses the exchange to run and its retries, and translates the result or the error for the caller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf
from time import monotonic
from typing import Any, TypeVar

from rmq_core.compat import operations
from rmq_core.compat.config import GatewayConfig
from rmq_core.compat.errors import in_redis_terms
from rmq_core.compat.events import EventOperation
from rmq_core.compat.io_mode import IoMode
from rmq_core.compat.keys import QueuePart, place
from rmq_core.compat.stored import ClaimedMessage, MessageData, held, lease_of, token_text
from rmq_core.connection.clients import decodes
from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations import managing, publishing, settling
from rmq_core.envelope.ids import new_id
from rmq_core.errors import (
    ConfigurationError,
    QueueBackpressureError,
    QueueFull,
    QueueUnavailable,
    RedisMessageQueueError,
)
from rmq_core.events import EventOutcome, Operation, QueueEvent
from rmq_core.exchange import Exchange, Interrupted, Patience
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.observe.fact import emitting
from rmq_core.queue.keys import LeasedKeys
from rmq_core.queue.recording import flush, one_attempt

R = TypeVar("R")

giving_up: ContextVar[Callable[[], bool] | None] = ContextVar("giving_up", default=None)
"""Set by a queue around methods that wait for a message or for room; the function returns True once it is drained."""

_TOLD: dict[StrEnum, EventOperation] = {
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
        except RedisMessageQueueError as error:
            if attempt and isinstance(error, QueueUnavailable) and error.__cause__ is not None:
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
            if event.operation in _TOLD:
                yield replace(event, operation=_TOLD[event.operation])


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
            made = Channel(engine, self._driver(engine), self.config, self._io_mode)
            channel = self._made.setdefault(name, made)
        return channel, part

    def _driver(self, engine: LeasedEngine) -> Any:
        from rmq_core.exchange import public  # loads redis-py

        make: Any = public.async_driver if self._io_mode.asynchronous else public.sync_driver
        return public.shared(make, self._client, engine.prefix, engine.retry_budget_s)

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
    except (QueueFull, Interrupted) as error:
        most, gave_up = channel.engine.config.max_ready, isinstance(error, Interrupted)
        raise QueueBackpressureError(
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
    grant = None if patience.over else await channel.run(operations.claim(channel.engine, wait_s), patience, attempt)
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
        return await channel.run(operations.unless_lost(settling.release(channel.engine, lease)))
    return await channel.run(operations.finish(channel.engine, lease, part))


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
    return await channel.run(operations.unless_lost(settling.extend(channel.engine, lease)), patience)


async def trim_queue(channels: Channels, queue: str, max_length: int) -> None:
    """Trim a log to its newest entries."""
    channel, part = channels.find(queue)
    await channel.run(operations.trim(channel.engine, part, max_length))


async def queue_length(channels: Channels, queue: str) -> int:
    """Return how many messages a part of a queue holds."""
    channel, part = channels.find(queue)
    return await channel.run(operations.length(channel.engine, part))


async def peek_messages(channels: Channels, queue: str, count: int) -> list[MessageData]:
    """Return at most `count` payloads of a part of a queue: the next to be delivered, or the newest of a log."""
    channel, part = channels.find(queue)
    payloads = await channel.run(operations.peek(channel.engine, part, count))
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
        raise ConfigurationError("messages being processed cannot be purged; let them complete or expire")
    return await channel.run(managing.purge(channel.engine, operations.LISTS[part]))


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
