"""One queue object: what its operations share, and who is inside it.

Its gateway is used through its verbs, and what they return is checked. Its state is its own, never written to Redis.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable
from contextvars import Token
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, NamedTuple

from rmq_core.errors import GatewayContractError, RedisMessageQueueError
from rmq_core.events import EventOperation, EventOutcome, QueueEvent
from rmq_core.message_queue import checks
from rmq_core.message_queue.config import Deduplication, HeartbeatSettings, Logs
from rmq_core.message_queue.gateway import Channel, RedisGatewayBase, giving_up
from rmq_core.message_queue.keys import QueueKeyManager
from rmq_core.message_queue.payload import PayloadRules
from rmq_core.message_queue.stored import ClaimedMessage, MessageData, Received
from rmq_core.message_queue.worlds import World

_log = logging.getLogger("rmq")


class Settings(NamedTuple):
    """What a queue object was made with, checked."""

    deduplication: Deduplication
    logs: Logs
    heartbeat: HeartbeatSettings
    payload: PayloadRules
    strict_envelopes: bool
    on_event: Callable[[QueueEvent], Any] | None


@dataclass(eq=False)
class Body:
    """The state behind a queue's operations."""

    key: QueueKeyManager
    gateway: Any
    settings: Settings
    world: World
    warned: bool = False
    gate: Gate = field(init=False)
    channel: Channel | None = field(init=False, default=None)
    """What the built-in gateway knows beyond its verbs."""

    def __post_init__(self) -> None:
        self.gate = Gate(self.world.me)
        if isinstance(self.gateway, RedisGatewayBase):
            self.channel, _ = self.gateway.channels.find(self.key.pending)
            if self.settings.on_event is not None:
                self.channel.listen()

    @property
    def leased(self) -> bool:
        """Whether claims expire."""
        return getattr(self.gateway, "message_visibility_timeout_seconds", None) is not None

    async def ask(self, verb: str, kinds: Any, *args: object, finish: bool = False, **options: object) -> Any:
        """What a verb of the gateway returns, if it is of one of these types; `finish` as in `World`."""
        method = getattr(self.gateway, verb, None)
        if not callable(method):
            raise GatewayContractError(f"{type(self.gateway).__name__} has no {verb}(), which RedisGateway has")
        call = self.world.finish if finish else self.world.call
        value = await call(method, *args, **options)
        if isinstance(value, kinds):
            return value
        checks.dispose(value)
        names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise GatewayContractError(f"gateway.{verb}() must return {names}, not {type(value).__name__}")

    async def tell(
        self,
        operation: EventOperation,
        outcome: EventOutcome = EventOutcome.SUCCESS,
        *,
        error: BaseException | None = None,
        began: float | None = None,
        of: Received | None = None,
        destination_queue: str | None = None,
    ) -> None:
        """Tell `on_event`, whatever it makes of it."""
        if self.settings.on_event is None:
            return
        about: dict[str, Any] = {}
        if of is not None:
            about = {"message_id": of.id, "claim_id": of.claim_id, "lease_token_hash": of.token_hash}
            about |= {"delivery_count": of.deliveries}
        await self._emit(
            QueueEvent(
                self.key.name, operation, outcome, error=error, destination_queue=destination_queue,
                exception_type=None if error is None else type(error).__name__,
                duration_ms=None if began is None else (perf_counter() - began) * 1000, **about,
            )
        )  # fmt: skip

    async def tell_noted(self) -> None:
        """Tell what happened inside the gateway."""
        if self.channel is not None and self.settings.on_event is not None:
            for event in self.channel.told():
                await self._emit(replace(event, queue=self.key.name))

    async def _emit(self, event: QueueEvent) -> None:
        try:
            checks.plain("on_event", await self.world.call(self.settings.on_event, event))
        except Exception as error:  # noqa: BLE001  the callback's error is not the queue's
            _log.exception("on_event raised at %s of queue %r", event.operation, event.queue)
            warn(f"on_event raised {type(error).__name__}")

    def keep(self, claimed: ClaimedMessage | MessageData) -> bool:
        """Let the gateway remember a message that does not reach its handler; False when it cannot."""
        grant = getattr(claimed.stored_message if isinstance(claimed, ClaimedMessage) else claimed, "grant", None)
        if grant is None or self.channel is None:
            return False
        self.channel.keep(grant.lease)
        return True

    def about(self, error: Exception, operation: str, received: Received | None = None) -> Exception:
        """The error, knowing what it is about."""
        if isinstance(error, RedisMessageQueueError):
            error.queue, error.operation = self.key.name, operation
            error.message_id = None if received is None else received.id
        return error


class Gate:
    """Where `drain` looks. No lock: a signal handler that drains may have interrupted the holder of any."""

    def __init__(self, me: Callable[[], int]) -> None:
        self.me = me
        self.draining = self.drained = False
        self.publishing: list[int] = []
        self.claiming: list[int] = []

    def inside(self, place: list[int]) -> Inside:
        """Stand in `publishing` or `claiming` for a block; what waits there is told when the queue is drained."""
        return Inside(self, place)

    def others(self, place: list[int]) -> bool:
        """Whether anybody but the caller is inside; it would wait for ever for what it has interrupted itself."""
        me = self.me()
        return any(other != me for other in place)

    def is_draining(self) -> bool:
        """What those who wait inside ask."""
        return self.draining


class Inside:
    """Somebody in a place of a gate. No generator: every publish and every claim makes one of these."""

    __slots__ = ("_gate", "_me", "_place", "_token")
    _token: Token[Callable[[], bool] | None]

    def __init__(self, gate: Gate, place: list[int]) -> None:
        self._gate, self._place, self._me = gate, place, gate.me()

    def __enter__(self) -> None:
        self._token = giving_up.set(self._gate.is_draining)
        self._place.append(self._me)

    def __exit__(self, *_: object) -> None:
        self._place.remove(self._me)
        giving_up.reset(self._token)


def warn(text: str) -> None:
    """A RuntimeWarning that harms nobody: under `-W error` a message would otherwise be lost over it."""
    with contextlib.suppress(RuntimeWarning):
        warnings.warn(text, RuntimeWarning, stacklevel=3)
