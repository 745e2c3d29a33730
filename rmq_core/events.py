"""What happened to a queue, told to `on_event` after the commit it reports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

_log = logging.getLogger("rmq")


class Operation(StrEnum):
    """The steps of a message's and a lease's life."""

    PUBLISH = "publish"
    DUPLICATE = "duplicate"
    DROP = "drop"
    CLAIM = "claim"
    TAKEOVER = "takeover"
    ACK = "ack"
    NACK = "nack"
    RELEASE = "release"
    RECLAIM = "reclaim"
    DEAD = "dead"
    LOST = "lost"
    REDRIVE = "redrive"


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """One step: how many messages of which lease, and which message when it concerns a single one."""

    queue: str
    operation: Operation
    count: int = 1
    lease_id: str | None = None
    message_id: str | None = None
    reason: str | None = None


OnEvent: TypeAlias = Callable[[QueueEvent], object]


def tell(on_event: OnEvent | None, event: QueueEvent) -> None:
    """Call the callback; whatever it raises is logged and never harms the queue."""
    if on_event is None:
        return
    try:
        on_event(event)
    except Exception:  # noqa: BLE001  whatever it is, it is the callback's, not the queue's
        _log.exception("on_event raised at %s of queue %r", event.operation, event.queue)
