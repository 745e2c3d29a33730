"""What happened to a queue, told to `on_event`: mostly after the commit it reports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

_log = logging.getLogger("rmq")


class EventOperation(StrEnum):
    """The steps of a message's and a lease's life: those of LeasedQueue, then those that RedisMessageQueue has besides.

    RedisMessageQueue says `publish_dedup_hit` for `duplicate`, `claim_reclaim` for `reclaim` and `dlq` for `dead`.
    """

    PUBLISH = "publish"
    DUPLICATE = "duplicate"
    DROP = "drop"
    CLAIM = "claim"
    ISOLATE = "isolate"
    """A claim got messages that failed together before, fewer than it asked for; follows its `claim`."""
    TAKEOVER = "takeover"
    ACK = "ack"
    NACK = "nack"
    RELEASE = "release"
    RECLAIM = "reclaim"
    DEAD = "dead"
    LOST = "lost"
    REDRIVE = "redrive"

    PUBLISH_DEDUP_HIT = "publish_dedup_hit"
    CLAIM_EMPTY = "claim_empty"
    CLAIM_RECLAIM = "claim_reclaim"
    DLQ = "dlq"
    COMPLETED = "completed"
    FAILED = "failed"
    LEASE_RENEW = "lease_renew"
    LEASE_RENEW_FAILED = "lease_renew_failed"
    HEARTBEAT_STOP_TIMEOUT = "heartbeat_stop_timeout"
    STALE_LEASE_ACK = "stale_lease_ack"
    STALE_LEASE_NACK = "stale_lease_nack"
    CLEANUP_FAILED = "cleanup_failed"
    TRIM_FAILED = "trim_failed"
    RETRY_ATTEMPT = "retry_attempt"
    RETRY_EXHAUSTED = "retry_exhausted"


Operation: TypeAlias = EventOperation


class EventOutcome(StrEnum):
    """How a step ended; `skipped` is one that had nothing to do."""

    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """One step of a queue. Which fields are set depends on the step; `count` is the number of messages it concerns."""

    queue: str
    operation: EventOperation
    outcome: EventOutcome
    message_id: str | None = None
    claim_id: str | None = None
    """The lease of the message."""
    lease_token_hash: str | None = None
    """Tells two holders of a message apart without giving the right to settle it away."""
    destination_queue: str | None = None
    exception_type: str | None = None
    """The name of the error's class, fit for a metric's label."""
    duration_ms: float | None = None
    error: BaseException | None = None
    count: int = 1
    reason: str | None = None
    delivery_count: int | None = None
    max_delivery_count: int | None = None

    @property
    def lease_id(self) -> str | None:
        """`claim_id` in the words of LeasedQueue."""
        return self.claim_id


OnEvent: TypeAlias = Callable[[QueueEvent], object]


def tell(on_event: OnEvent | None, event: QueueEvent) -> None:
    """Call the callback; whatever it raises is logged and never harms the queue."""
    if on_event is None:
        return
    try:
        on_event(event)
    except Exception:  # noqa: BLE001  whatever it is, it is the callback's, not the queue's
        _log.exception("on_event raised at %s of queue %r", event.operation, event.queue)
