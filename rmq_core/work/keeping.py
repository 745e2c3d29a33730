"""Treatment of a lease after a failure: kept for a retry, released, or nacked after the last attempt."""

from __future__ import annotations

import logging
from typing import Protocol

from rmq_core.errors import LeaseLost, RedisMessageQueueError
from rmq_core.messages import Lease

log = logging.getLogger(__name__)


class Settleable(Protocol):
    """An object that holds a lease. Each method returns False, or raises LeaseLost, when no message was left."""

    @property
    def lease(self) -> Lease:
        """The lease."""

    def keep(self, seconds: float | None) -> bool:
        """Hold the lease for a retry, for `seconds`; None for the queue's usual lease."""

    def give_up(self, reason: str) -> bool:
        """Nack the unsettled messages."""

    def give_back(self) -> bool:
        """Release the unsettled messages."""


def conclude(
    held: Settleable, reason: str, *, keep_s: float | None = None, retried: bool = True, blameless: bool = False
) -> str:
    """Keep, release or nack a lease after a failure, and return in words what was done.

    If Redis is unavailable, the lease is not changed; its messages are redelivered when it expires. blameless: release
    the lease, because its messages did not cause the failure (the task was stopped or skipped). Otherwise, `retried`
    holds it for another `keep_s` seconds; without `retried`, the messages are nacked.
    """
    try:
        if blameless:
            left, done = held.give_back(), "released"
        elif retried:
            left, done = held.keep(keep_s), "kept for the retry"
        else:
            left, done = held.give_up(reason), "nacked: this was the last attempt"
    except LeaseLost:
        left = False
    except RedisMessageQueueError as trouble:
        log.warning(
            "Lease %s was not changed; its messages are redelivered when it expires.", held.lease.id, exc_info=True
        )
        return f"left to expire: {trouble}"
    return done if left else "no longer held"
