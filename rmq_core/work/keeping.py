"""What becomes of a lease when the work on it fails: kept for a retry, given back, or nacked after the last one."""

from __future__ import annotations

import logging
from typing import Protocol

from rmq_core.errors import LeaseLost, RedisMessageQueueError
from rmq_core.messages import Lease

log = logging.getLogger(__name__)


class Settleable(Protocol):
    """What is held; each verb returns False, or raises LeaseLost, when nothing of it was left."""

    @property
    def lease(self) -> Lease | None:
        """The lease."""

    def keep(self, seconds: float | None) -> bool:
        """Hold it for a retry; for as long as the queue does when None."""

    def give_up(self, reason: str) -> bool:
        """Nack what is left."""

    def give_back(self) -> bool:
        """Release what is left."""


def conclude(
    held: Settleable, reason: str, *, keep_s: float | None = None, retried: bool = True, blameless: bool = False
) -> str:
    """After a failure: what was done about the lease, in words. What Redis being away hinders, its expiry does later.

    blameless: nobody's failure, so that it is released. retried: it is held for another `keep_s` seconds; else nacked.
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
        name = held.lease and held.lease.id
        log.warning("Lease %s was left as it is; it returns when it expires.", name, exc_info=True)
        return f"left to expire: {trouble}"
    return done if left else "not ours any more"
