"""The engines behind one gateway: one for each queue that it is asked about."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from rmq_core.events import EventOperation, EventOutcome, QueueEvent
from rmq_core.keys import LeasedKeys
from rmq_core.leased.engine import Engine
from rmq_core.message_queue.config import GatewayConfig
from rmq_core.message_queue.keys import Part, place
from rmq_core.messages import Lease

_TOLD = {
    EventOperation.RECLAIM: EventOperation.CLAIM_RECLAIM,
    EventOperation.TAKEOVER: EventOperation.CLAIM_RECLAIM,
    EventOperation.DEAD: EventOperation.DLQ,
    EventOperation.RETRY_ATTEMPT: EventOperation.RETRY_ATTEMPT,
    EventOperation.RETRY_EXHAUSTED: EventOperation.RETRY_EXHAUSTED,
}


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
    """The channels of a gateway, made when they are first asked for."""

    def __init__(self, config: GatewayConfig, driver: Callable[[bytes, float], Any]) -> None:
        self._config, self._driver = config, driver
        self._made: dict[str, Channel] = {}
        self._found: dict[str, tuple[Channel, Part]] = {}

    def find(self, key: str) -> tuple[Channel, Part]:
        """The channel of the queue that a name belongs to, and the part that it names."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._look_up(key)
        return found

    def _look_up(self, key: str) -> tuple[Channel, Part]:
        if key == self._config.delivery.dead_letter_queue and len(self._made) == 1:
            return next(iter(self._made.values())), Part.DEAD_LETTER
        name, part = place(key)
        channel = self._made.get(name)
        if channel is None:
            engine = Engine(LeasedKeys(name), self._config.leased())
            made = Channel(engine, self._driver(engine.prefix, engine.retry_budget_s), self._config)
            channel = self._made.setdefault(name, made)
        return channel, part

    def log(self, key: str) -> Part:
        """The part that a message is moved to."""
        return Part.DEAD_LETTER if key == self._config.delivery.dead_letter_queue else place(key).part
