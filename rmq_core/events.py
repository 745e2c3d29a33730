"""Events of a queue, passed to `on_event`. Most are emitted after Redis has committed the step that they report."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

_log = logging.getLogger("rmq")


class Operation(StrEnum):
    """The steps of messages and leases. RedisMessageQueue has an enumeration of its own, EventOperation."""

    PUBLISH = "publish"
    DUPLICATE = "duplicate"
    REPLACE = "replace"
    """Messages that waited were replaced by later ones with their keys, see `LeasedConfig.on_duplicate`."""
    DROP = "drop"
    CLAIM = "claim"
    ISOLATE = "isolate"
    """A claim got messages that failed together before, and fewer than requested; emitted after its `claim` event."""
    TAKEOVER = "takeover"
    ACK = "ack"
    NACK = "nack"
    RELEASE = "release"
    RECLAIM = "reclaim"
    DEAD = "dead"
    LOST = "lost"
    REDRIVE = "redrive"
    PAUSE = "pause"
    """The queue paused itself, see `policy.Breaker`; emitted before the `dead` events of the same call."""


class EventOutcome(StrEnum):
    """How a step ended; `skipped` means that there was nothing to do."""

    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """One step of a queue. Which fields are set depends on the step; `count` is the number of messages it concerns."""

    queue: str
    operation: StrEnum
    """An Operation, or for RedisMessageQueue an EventOperation."""
    outcome: EventOutcome
    message_id: str | None = None
    claim_id: str | None = None
    """The lease of the message."""
    lease_token_hash: str | None = None
    """Distinguishes two holders of a message without exposing the token, which permits settling it."""
    destination_queue: str | None = None
    exception_type: str | None = None
    """The name of the error's class; it can be used as the label of a metric."""
    duration_ms: float | None = None
    error: BaseException | None = None
    count: int = 1
    reason: str | None = None
    delivery_count: int | None = None
    max_delivery_count: int | None = None

    @property
    def lease_id(self) -> str | None:
        """The same as `claim_id`, under the name that LeasedQueue uses."""
        return self.claim_id


OnEvent: TypeAlias = Callable[[QueueEvent], object]


def emit(on_event: OnEvent | None, event: QueueEvent) -> None:
    """Call the callback. An exception that it raises is logged and does not affect the queue."""
    if on_event is None:
        return
    try:
        on_event(event)
    except Exception:  # an error of the callback must not affect the queue
        _log.exception("on_event raised at %s of queue %r", event.operation, event.queue)
