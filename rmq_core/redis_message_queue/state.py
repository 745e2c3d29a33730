"""State of one queue object: settings and active callers.

It calls the gateway's public methods and checks what they return. None of this state is stored in Redis.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable
from contextvars import Token
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import perf_counter
from typing import Any

from rmq_core.errors import GatewayContractError, RedisMessageQueueError
from rmq_core.events import EventOutcome, QueueEvent
from rmq_core.messages import Lease
from rmq_core.redis_message_queue import config
from rmq_core.redis_message_queue.config import Deduplication, EventOperation, HeartbeatSettings, Logs, PayloadRules
from rmq_core.redis_message_queue.gateway import Channel, IoMode, RedisGatewayBase, giving_up
from rmq_core.redis_message_queue.part_names import QueueKeyManager
from rmq_core.redis_message_queue.stored import ClaimedMessage, MessageData, Received
from rmq_core.twin import awaited

_log = logging.getLogger("rmq")


@dataclass(eq=False)
class QueueState:
    """State behind a queue's operations: validated settings and the calls in progress."""

    key: QueueKeyManager
    gateway: Any
    io_mode: IoMode
    deduplication: Deduplication
    logs: Logs
    heartbeat: HeartbeatSettings
    payload: PayloadRules
    strict_envelopes: bool
    on_event: Callable[[QueueEvent], Any] | None
    channel: Channel | None = None
    """The built-in gateway's internals, else None."""
    warned: bool = False
    draining: bool = False
    drained: bool = False
    publishing: list[int] = field(default_factory=list)
    claiming: list[int] = field(default_factory=list)
    """Callers publishing or claiming, for `drain`. No lock: a signal handler that drains could deadlock on one."""

    def __post_init__(self) -> None:
        if isinstance(self.gateway, RedisGatewayBase):
            self.channel, _ = self.gateway.channels.find(self.key.pending)
            if self.on_event is not None:
                self.channel.listen()

    def is_draining(self) -> bool:
        """Return whether waits should end."""
        return self.draining

    def others(self, place: list[int]) -> bool:
        """Return whether another caller is active. A signal handler must not wait for the call it interrupted."""
        me = self.io_mode.me()
        return any(other != me for other in place)

    @property
    def leased(self) -> bool:
        """Whether claims expire."""
        return getattr(self.gateway, "message_visibility_timeout_seconds", None) is not None

    async def ask(self, verb: str, kinds: Any, *args: object, finish: bool = False, **options: object) -> Any:
        """Call a gateway method and check its return type; `finish` as for `awaited`."""
        method = getattr(self.gateway, verb, None)
        if not callable(method):
            raise GatewayContractError(f"{type(self.gateway).__name__} has no {verb}(), which RedisGateway has")
        value = method(*args, **options)
        if self.io_mode.asynchronous:
            value = await awaited(value, finish=finish)
        if isinstance(value, kinds):
            return value
        config.dispose(value)
        names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise GatewayContractError(f"gateway.{verb}() must return {names}, not {type(value).__name__}")

    async def emit(
        self,
        operation: EventOperation,
        outcome: EventOutcome = EventOutcome.SUCCESS,
        *,
        error: BaseException | None = None,
        began: float | None = None,
        of: Received | None = None,
        destination_queue: str | None = None,
    ) -> None:
        """Emit to `on_event`; log its errors."""
        if self.on_event is None:
            return
        about: dict[str, Any] = {}
        if of is not None:
            about = {"message_id": of.id, "claim_id": of.claim_id, "lease_token_hash": of.token_hash}
            about |= {"delivery_count": of.deliveries}
        event = QueueEvent(
            self.key.name, operation, outcome, error=error, destination_queue=destination_queue,
            exception_type=None if error is None else type(error).__name__,
            duration_ms=None if began is None else (perf_counter() - began) * 1000, **about,
        )  # fmt: skip
        await self.call_back("on_event", operation, self.on_event, event)

    async def tell_noted(self) -> None:
        """Emit events noted by the gateway."""
        if self.channel is not None and self.on_event is not None:
            for event in self.channel.new_events():
                await self.call_back("on_event", event.operation, self.on_event, replace(event, queue=self.key.name))

    async def call(self, parameter: str, call: Callable[..., Any], *args: object) -> Any:
        """Call a user's function."""
        value = call(*args)
        return config.plain(parameter, await awaited(value) if self.io_mode.asynchronous else value)

    async def call_back(self, parameter: str, at: StrEnum, call: Callable[..., Any], *args: object) -> None:
        """Call a user's callback; log and warn if it raises."""
        try:
            await self.call(parameter, call, *args)
        except Exception as error:
            _log.exception("%s raised at %s of queue %r", parameter, at, self.key.name)
            warn(f"{parameter} raised {type(error).__name__}")

    async def complain(
        self, text: str, operation: EventOperation, error: Exception | None = None, **about: Any
    ) -> None:
        """Log, emit and warn; do not raise."""
        _log.log(logging.WARNING if error is None else logging.ERROR, text, exc_info=error)
        await self.emit(operation, about.pop("outcome", EventOutcome.FAILURE), error=error, **about)
        warn(text if error is None else f"{text} ({type(error).__name__})")

    def keep(self, claimed: ClaimedMessage | MessageData) -> bool:
        """Mark a claimed message as undelivered, for the next claim or `drain` to pick up; False if not possible."""
        grant = getattr(claimed.stored_message if isinstance(claimed, ClaimedMessage) else claimed, "grant", None)
        if grant is None or self.channel is None:
            return False
        lease: Lease = grant.lease
        self.channel.engine.unanswered[lease.id] = (lease.token or "").rpartition(".")[2].removeprefix("g")
        return True

    def about(self, error: Exception, operation: str, received: Received | None = None) -> Exception:
        """Return the error, with its queue, operation and message id set."""
        if isinstance(error, RedisMessageQueueError):
            error.queue, error.operation = self.key.name, operation
            error.message_id = None if received is None else received.id
        return error


class Inside:
    """Registers the caller in `publishing` or `claiming` for a block; its waits end when the queue drains.

    A class and not a generator, for speed: each publish and claim makes one.
    """

    __slots__ = ("_body", "_me", "_place", "_token")
    _token: Token[Callable[[], bool] | None]

    def __init__(self, body: QueueState, place: list[int]) -> None:
        self._body, self._place, self._me = body, place, body.io_mode.me()

    def __enter__(self) -> None:
        self._token = giving_up.set(self._body.is_draining)
        self._place.append(self._me)

    def __exit__(self, *_: object) -> None:
        self._place.remove(self._me)
        giving_up.reset(self._token)


def warn(text: str) -> None:
    """Issue a RuntimeWarning that never raises: under `-W error` it would lose a message."""
    with contextlib.suppress(RuntimeWarning):
        warnings.warn(text, RuntimeWarning, stacklevel=3)
