"""What the steps of one queue object share. The gateway is used through its verbs, and what they return is checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from rmq_core.errors import GatewayContractError, RedisMessageQueueError
from rmq_core.events import QueueEvent
from rmq_core.message_queue import checks
from rmq_core.message_queue.channels import Channel
from rmq_core.message_queue.config import Deduplication, Heartbeat, Logs
from rmq_core.message_queue.gate import Gate
from rmq_core.message_queue.gateway import RedisGatewayBase
from rmq_core.message_queue.keys import QueueKeyManager
from rmq_core.message_queue.payload import PayloadRules
from rmq_core.message_queue.stored import ClaimedMessage, Delivery, MessageData
from rmq_core.message_queue.telling import Silence, Teller

R = TypeVar("R")


class Settings(NamedTuple):
    """What a queue object was made with, checked."""

    deduplication: Deduplication
    logs: Logs
    heartbeat: Heartbeat
    payload: PayloadRules
    strict_envelopes: bool
    on_event: Callable[[QueueEvent], Any] | None


@dataclass(eq=False)
class Body:
    """One queue object: its names, its gateway, what is going on in it."""

    key: QueueKeyManager
    gateway: Any
    settings: Settings
    gate: Gate
    warned: bool = False
    channel: Channel | None = field(init=False, default=None)
    """What the built-in gateway knows beyond its verbs."""
    teller: Teller | Silence = field(init=False)

    def __post_init__(self) -> None:
        on_event = self.settings.on_event
        if isinstance(self.gateway, RedisGatewayBase):
            self.channel, _ = self.gateway.channels.find(self.key.pending)
            if on_event is not None:
                self.channel.listen()
        self.teller = Silence() if on_event is None else Teller(self.key.name, on_event, self.channel)
        self.tell = self.teller.tell

    @property
    def leased(self) -> bool:
        """Whether claims expire."""
        return getattr(self.gateway, "message_visibility_timeout_seconds", None) is not None

    def keep(self, claimed: ClaimedMessage | MessageData) -> bool:
        """Let the gateway remember a message that does not reach its handler; False when it cannot."""
        lease = getattr(claimed.stored_message if isinstance(claimed, ClaimedMessage) else claimed, "lease", None)
        if lease is None or self.channel is None:
            return False
        self.channel.keep(lease)
        return True

    def about(self, error: Exception, operation: str, delivery: Delivery | None = None) -> Exception:
        """The error, knowing what it is about."""
        if isinstance(error, RedisMessageQueueError):
            error.queue, error.operation = self.key.name, operation
            error.message_id = None if delivery is None else delivery.id
        return error


def returned(verb: str, value: Any, *kinds: type[R]) -> R:
    """What a gateway returned, if it is of the right type."""
    if isinstance(value, kinds):
        return value
    if inspect.isawaitable(value):
        checks.dispose(value)
    names = " or ".join(kind.__name__ for kind in kinds)
    raise GatewayContractError(f"gateway.{verb}() must return {names}, not {type(value).__name__}")
