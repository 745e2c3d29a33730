"""The gateway to the leased engine: its settings, and the engines behind it. Its methods are in `verbs`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar, Generic, TypeVar

from rmq_core.clients import check_gateway_client, decodes, is_cluster
from rmq_core.errors import QueueUnavailable, RedisMessageQueueError
from rmq_core.events import EventOperation, EventOutcome, QueueEvent
from rmq_core.exchange import Exchange, Patience
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler
from rmq_core.keys import LeasedKeys
from rmq_core.leased.engine import Engine
from rmq_core.message_queue import checks
from rmq_core.message_queue.config import Backpressure, DeliverySettings, GatewayConfig, retries
from rmq_core.message_queue.errors import in_redis_terms
from rmq_core.message_queue.keys import Part, place
from rmq_core.message_queue.stored import MessageData
from rmq_core.message_queue.worlds import Stateful, World
from rmq_core.messages import Lease

R = TypeVar("R")
Flag = TypeVar("Flag")
Done = TypeVar("Done")
Claim = TypeVar("Claim")

giving_up: ContextVar[Callable[[], bool] | None] = ContextVar("giving_up", default=None)
"""Set by a queue around verbs that wait, for a message or for room: true as soon as the queue is drained."""

_TOLD = {
    EventOperation.RECLAIM: EventOperation.CLAIM_RECLAIM,
    EventOperation.TAKEOVER: EventOperation.CLAIM_RECLAIM,
    EventOperation.DEAD: EventOperation.DLQ,
    EventOperation.RETRY_ATTEMPT: EventOperation.RETRY_ATTEMPT,
    EventOperation.RETRY_EXHAUSTED: EventOperation.RETRY_EXHAUSTED,
}


class Gateway(ABC, Generic[Flag, Done, Claim]):
    """What a queue asks of a gateway; the types are what its methods return in either world.

    Override those of the properties that apply. A gateway whose claims expire must have
    `message_visibility_timeout_seconds` and return ClaimedMessage.
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

    @abstractmethod
    def publish_message(self, queue: str, message: str, dedup_key: str) -> Flag:
        """Add a message unless `dedup_key` is remembered; whether it was added."""

    @abstractmethod
    def add_message(self, queue: str, message: str) -> Done:
        """Add a message."""

    @abstractmethod
    def wait_for_message_and_move(self, from_queue: str, to_queue: str) -> Claim:
        """Claim the next message; None when there is none for some seconds, so that the queue can look around.

        With a visibility timeout, return ClaimedMessage, whose token is the right to settle the message.
        """

    @abstractmethod
    def move_message(
        self, from_queue: str, to_queue: str, message: MessageData, *, lease_token: str | None = None
    ) -> Flag:
        """Move a claimed message to a log; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    def remove_message(self, queue: str, message: MessageData, *, lease_token: str | None = None) -> Flag:
        """Forget a claimed message; False, with nothing changed, when the token is no longer valid."""

    @abstractmethod
    def renew_message_lease(
        self,
        queue: str,
        message: MessageData,
        lease_token: str,
        *,
        is_interrupted: BaseGracefulInterruptHandler | None = None,
    ) -> Flag:
        """Renew a claim; False when the token is no longer valid. Stop trying once `is_interrupted` says so."""

    @abstractmethod
    def trim_queue(self, queue: str, max_length: int) -> Done:
        """Cut a log to its newest entries."""


class RedisGatewayBase(Stateful["Channels"]):
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

    _world: ClassVar[World]

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
        check_gateway_client(redis_client, asynchronous=self._world.asynchronous)
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
        self._state = self.channels = Channels(self.config, redis_client, self._world)

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


@dataclass(eq=False, slots=True)
class Channel:
    """One queue as seen by one gateway. `noted` is what its engine had to tell, until the queue asks."""

    engine: Engine
    driver: Any
    config: GatewayConfig
    world: World
    noted: deque[QueueEvent] = field(default_factory=lambda: deque(maxlen=1000))

    async def run(self, exchange: Exchange[R], patience: Patience | None = None, attempt: str | None = None) -> R:
        """Run an exchange, as patiently as the gateway is otherwise; `attempt` names a claim, whose end is noted."""
        patience = patience or self.config.patience
        try:
            result = self.driver.run(exchange, patience)
            found: R = await result if self.world.asynchronous else result
        except RedisMessageQueueError as error:
            if attempt and isinstance(error, QueueUnavailable) and error.__cause__ is not None:
                self.note(EventOperation.RETRY_EXHAUSTED, attempt, error.__cause__)
            known = in_redis_terms(error, resent=patience.budget_s is not None)
            raise known from known.__cause__
        return found

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

    def __init__(self, config: GatewayConfig, client: Any, world: World) -> None:
        self.config, self.decode = config, decodes(client)
        self._client, self._world = client, world
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
            made = Channel(engine, self._driver(engine), self.config, self._world)
            channel = self._made.setdefault(name, made)
        return channel, part

    def _driver(self, engine: Engine) -> Any:
        from rmq_core.exchange import public  # noqa: PLC0415  loads redis-py

        make: Any = public.async_driver if self._world.asynchronous else public.sync_driver
        return public.shared(make, self._client, engine.prefix, engine.retry_budget_s)

    def patience(
        self,
        most_s: float | None = inf,
        given_up: Callable[[], bool] | None = None,
        noticed: Callable[[Exception], object] | None = None,
    ) -> Patience:
        """How patiently to ask: for `most_s` seconds at most, None leaves repeating to the client."""
        budget_s, first_s, longest_s, interrupted, *_ = self.config.patience
        most_s = None if most_s is None or budget_s is None else min(most_s, budget_s)
        return Patience(most_s, first_s, longest_s, either(interrupted, given_up), noticed)


def either(one: Callable[[], bool] | None, other: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """True when one of two says so."""
    if one is None or other is None:
        return one or other
    return lambda: one() or other()
