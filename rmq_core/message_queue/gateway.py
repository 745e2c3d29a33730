"""The gateway to the leased engine: its settings, the engines behind it and its verbs.

A verb is what it asks of an engine and how patiently; `sync` and `aio` make methods of the functions here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from rmq_core.clients import check_gateway_client, decodes, is_cluster
from rmq_core.errors import QueueUnavailable, RedisMessageQueueError
from rmq_core.events import EventOperation, EventOutcome, QueueEvent
from rmq_core.exchange import Exchange, Patience
from rmq_core.ids import new_id
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.keys import LeasedKeys
from rmq_core.leased.engine import Engine
from rmq_core.leased.operations import managing
from rmq_core.message_queue import checks, verbs
from rmq_core.message_queue.config import Backpressure, DeliverySettings, GatewayConfig, retries
from rmq_core.message_queue.errors import in_redis_terms
from rmq_core.message_queue.keys import Part, place
from rmq_core.message_queue.stored import ClaimedMessage, Grant, MessageData, held, lease_of, token_text
from rmq_core.messages import Lease

R = TypeVar("R")

giving_up: ContextVar[Callable[[], bool] | None] = ContextVar("giving_up", default=None)
"""Set by a queue around verbs that wait, for a message or for room: true as soon as the queue is drained."""

_TOLD = {
    EventOperation.RECLAIM: EventOperation.CLAIM_RECLAIM,
    EventOperation.TAKEOVER: EventOperation.CLAIM_RECLAIM,
    EventOperation.DEAD: EventOperation.DLQ,
    EventOperation.RETRY_ATTEMPT: EventOperation.RETRY_ATTEMPT,
    EventOperation.RETRY_EXHAUSTED: EventOperation.RETRY_EXHAUSTED,
}


class Gateway:
    """What a queue reads of a gateway besides its methods. Override what applies.

    A gateway whose claims expire must have `message_visibility_timeout_seconds` and return ClaimedMessage.
    """

    @property
    def is_redis_cluster(self) -> bool:
        """Whether the keys of a queue have to share a hash tag."""
        return False

    @property
    def max_delivery_count(self) -> int | None:
        """How often a message is delivered before it becomes a dead letter."""
        return None

    @property
    def dead_letter_queue(self) -> str | None:
        """The name of the place for dead letters."""
        return None


class RedisGatewayBase:
    """The gateway to the leased engine; `redis_client` is a redis-py client of this world.

    Queues go by the names of `queue.key`.

    retry_budget_seconds, retry_max_delay_seconds, retry_initial_delay_seconds: how long and how densely calls are
      repeated while Redis does not answer; a budget of 0 repeats nothing. Messages without deduplication are published
      once.
    message_deduplication_log_ttl_seconds: how long a message counts as published before, 3600 when None.
    message_wait_interval_seconds: how long to wait for a message, 5 when None, not at all when 0.
    message_visibility_timeout_seconds, max_delivery_count, dead_letter_queue, max_pending_length,
      pending_overload_policy, pending_overload_block_timeout_seconds, interrupt: as in RedisMessageQueue.
    """

    _asynchronous: bool

    def __init__(  # noqa: PLR0913  the documented signature
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
        check_gateway_client(redis_client, asynchronous=self._asynchronous)
        if interrupt is not None:
            checks.instance("interrupt", interrupt, BaseGracefulInterruptHandler, "GracefulInterruptHandler()")
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
        self.channels = Channels(self.config, self._driver, decode=decodes(redis_client))

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
        """For how long a claim holds its message; None for ever."""
        return self.config.delivery.visibility_timeout

    def _driver(self, prefix: bytes, retry_budget_s: float) -> Any:
        raise NotImplementedError


@dataclass(eq=False, slots=True)
class Channel:
    """One queue as seen by one gateway. `noted` is what its engine had to tell, until the queue asks."""

    engine: Engine
    driver: Any
    config: GatewayConfig
    noted: deque[QueueEvent] = field(default_factory=lambda: deque(maxlen=1000))

    @property
    def unanswered(self) -> bool:
        """Whether a claim ended without an answer and may have been granted."""
        return bool(self.engine.unanswered)

    def keep(self, lease: Lease) -> None:
        """Let the next claim, or `drain`, find a lease that did not reach its handler."""
        self.engine.unanswered[lease.id] = (lease.token or "").rpartition(".")[2]

    def listen(self) -> None:
        """Note events from now on."""
        self.engine.on_event = self.noted.append

    def note(self, operation: EventOperation, attempt: str, error: BaseException) -> None:
        """A failed attempt to claim."""
        if self.engine.on_event is not None:
            event = QueueEvent(
                self.engine.name, operation, EventOutcome.FAILURE, claim_id=attempt,
                exception_type=type(error).__name__, error=error,
            )  # fmt: skip
            self.noted.append(event)

    def told(self) -> Iterator[QueueEvent]:
        """What happened besides the verbs' results since the last time, in the words of RedisMessageQueue."""
        while self.noted:
            event = self.noted.popleft()
            if event.operation == EventOperation.DEAD:
                delivery = self.config.delivery
                event = replace(
                    event, destination_queue=delivery.dead_letter_queue, delivery_count=delivery.max_count,
                    max_delivery_count=delivery.max_count,
                )  # fmt: skip
            if event.operation in _TOLD:
                yield replace(event, operation=_TOLD[event.operation])


class Channels:
    """The engines behind one gateway: one for each queue that it is asked about, made when it is."""

    def __init__(self, config: GatewayConfig, driver: Callable[[bytes, float], Any], *, decode: bool) -> None:
        self.config, self.decode, self._driver = config, decode, driver
        self._made: dict[str, Channel] = {}
        self._found: dict[str, tuple[Channel, Part]] = {}

    def find(self, key: str) -> tuple[Channel, Part]:
        """The channel of the queue that a name belongs to, and the part that it names."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._look_up(key)
        return found

    def log(self, key: str) -> Part:
        """The part that a name stands for, whatever queue it belongs to."""
        return Part.DEAD_LETTER if key == self.config.delivery.dead_letter_queue else place(key)[1]

    def _look_up(self, key: str) -> tuple[Channel, Part]:
        if key == self.config.delivery.dead_letter_queue and len(self._made) == 1:
            return next(iter(self._made.values())), Part.DEAD_LETTER
        name, part = place(key)
        channel = self._made.get(name)
        if channel is None:
            engine = Engine(LeasedKeys(name), self.config.leased())
            made = Channel(engine, self._driver(engine.prefix, engine.retry_budget_s), self.config)
            channel = self._made.setdefault(name, made)
        return channel, part

    def patience(self, most_s: float | None = None, given_up: Callable[[], bool] | None = None) -> Patience:
        """How long and how densely a verb is repeated, for some seconds at most."""
        patience = self.config.patience
        if most_s is not None and patience.budget_s is not None:
            patience = patience._replace(budget_s=min(most_s, patience.budget_s))
        return patience if given_up is None else patience._replace(given_up=either(patience.given_up, given_up))


class Verb(NamedTuple, Generic[R]):
    """What a gateway is asked, ready to run. `attempt` names a wait for a message: the queue is told of its retries."""

    channel: Channel
    exchange: Exchange[R]
    patience: Patience
    attempt: str | None = None

    def meant(self, error: RedisMessageQueueError) -> Exception:
        """The error that the caller of the verb expects."""
        known = in_redis_terms(error, resent=self.patience.budget_s is not None)
        if self.attempt and isinstance(error, QueueUnavailable) and error.__cause__ is not None:
            self.channel.note(EventOperation.RETRY_EXHAUSTED, self.attempt, error.__cause__)
        return known


def publish_message(channels: Channels, queue: str, message: str, dedup_key: str) -> Verb[bool]:
    """Add a message unless `dedup_key` is remembered; whether it was added."""
    channel, _ = channels.find(queue)
    patience = channels.patience(given_up=giving_up.get())
    return Verb(channel, verbs.publish(channel.engine, message, dedup_key), patience)


def add_message(channels: Channels, queue: str, message: str) -> Verb[None]:
    """Add a message."""
    channel, _ = channels.find(queue)
    patience = channels.patience(given_up=giving_up.get())._replace(budget_s=None)  # the caller may publish again
    return Verb(channel, verbs.add(channel.engine, message), patience)


def wait_for_message_and_move(
    channels: Channels,
    from_queue: str,
    to_queue: str,  # noqa: ARG001  the lease knows
) -> Verb[ClaimedMessage | MessageData | None]:
    """Claim the next message; None when there is none for some seconds or the wait is interrupted."""
    channel, _ = channels.find(from_queue)
    wait_s, attempt = channels.config.wait, new_id()
    patience = channels.patience(wait_s, giving_up.get())._replace(
        noticed=lambda error: channel.note(EventOperation.RETRY_ATTEMPT, attempt, error)
    )
    claim = verbs.nothing(None) if patience.over else verbs.claim(channel.engine, wait_s)
    return Verb(channel, _handed_out(channels, claim), patience, attempt)


def _handed_out(channels: Channels, claim: Exchange[Grant | None]) -> Exchange[ClaimedMessage | MessageData | None]:
    grant = yield from claim
    if grant is None:
        return None
    stored = held(grant, decode=channels.decode)
    if channels.config.delivery.visibility_timeout is None:
        return stored
    return ClaimedMessage(stored, token_text(grant.lease))


def move_message(
    channels: Channels, from_queue: str, to_queue: str, message: MessageData, *, lease_token: str | None = None
) -> Verb[bool]:
    """Move a claimed message to a log; False, with nothing changed, when the token is no longer valid."""
    return _finish(channels, from_queue, message, lease_token, to_queue)


def remove_message(
    channels: Channels, queue: str, message: MessageData, *, lease_token: str | None = None
) -> Verb[bool]:
    """Forget a claimed message; False, with nothing changed, when the token is no longer valid."""
    return _finish(channels, queue, message, lease_token)


def _finish(
    channels: Channels, queue: str, message: MessageData, token: str | None, log: str | None = None
) -> Verb[bool]:
    channel, _ = channels.find(queue)
    lease = lease_of(channel.engine.name, message, token)
    if lease is None:
        return Verb(channel, verbs.nothing(False), channels.config.patience)
    part = None if log is None else channels.log(log)
    return Verb(channel, verbs.finish(channel.engine, lease, part), channels.config.patience)


def renew_message_lease(
    channels: Channels,
    queue: str,
    message: MessageData,  # noqa: ARG001  the token says it all
    lease_token: str,
    *,
    is_interrupted: BaseGracefulInterruptHandler | None = None,
) -> Verb[bool]:
    """Renew a claim; False when the token is no longer valid. Stops trying once `is_interrupted` says so."""
    channel, _ = channels.find(queue)
    timeout, lease = channels.config.delivery.visibility_timeout, lease_of(channel.engine.name, "", lease_token)
    if timeout is None or lease is None:
        return Verb(channel, verbs.nothing(False), channels.config.patience)
    patience = channels.patience(timeout, is_interrupted.is_interrupted if is_interrupted else None)
    return Verb(channel, verbs.renew(channel.engine, lease), patience)


def trim_queue(channels: Channels, queue: str, max_length: int) -> Verb[None]:
    """Cut a log to its newest entries."""
    channel, part = channels.find(queue)
    return Verb(channel, verbs.trim(channel.engine, part, max_length), channels.config.patience)


def queue_length(channels: Channels, queue: str) -> Verb[int]:
    """How many messages a part of a queue holds."""
    channel, part = channels.find(queue)
    return Verb(channel, verbs.length(channel.engine, part), channels.config.patience)


def peek_messages(channels: Channels, queue: str, count: int) -> Verb[list[MessageData]]:
    """Payloads of a part of a queue: the next ones of what waits, the newest of a log."""
    channel, part = channels.find(queue)
    return Verb(channel, verbs.peek(channel.engine, part, count, decode=channels.decode), channels.config.patience)


def redrive_messages(
    channels: Channels,
    from_queue: str,  # noqa: ARG001  there is one place for dead letters
    to_queue: str,
    max_messages: int | None = None,
) -> Verb[int]:
    """Move the oldest dead letters back with a fresh delivery budget; how many."""
    channel, _ = channels.find(to_queue)
    return Verb(channel, managing.redrive(channel.engine, max_messages), channels.config.patience)


def purge_queue(channels: Channels, queue: str) -> Verb[int]:
    """Delete what a part of a queue holds; how many messages."""
    channel, part = channels.find(queue)
    return Verb(channel, verbs.purge(channel.engine, part), channels.config.patience)


def recover_claims(
    channels: Channels,
    queue: str,
    budget_s: float | None = None,
) -> Verb[bool]:
    """Give back what claims took whose answer never came, within some seconds; whether nothing of it is left."""
    channel, _ = channels.find(queue)
    patience = channels.patience(budget_s)._replace(given_up=None)
    if budget_s is not None:
        until = monotonic() + budget_s
        patience = patience._replace(given_up=lambda: monotonic() >= until, hurried=True)
    return Verb(channel, verbs.recover(channel.engine), patience)


def either(one: Callable[[], bool] | None, other: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """True when one of two says so."""
    if one is None or other is None:
        return one or other
    return lambda: one() or other()
