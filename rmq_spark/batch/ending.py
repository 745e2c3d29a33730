"""How a batch ends: all its leases are acked when its block succeeds, else nacked, or kept for a retry.

That is one step for each lease. The verdicts on single messages come before all acks: one that fails is a failure of
the block, and nothing is acked. Then all leases are acked whatever becomes of one. Each ack leaves a record: whoever
finds it knows that the block succeeded and its verdicts are settled, and can ack the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

from rmq_core import LeaseLost, RedisMessageQueueError
from rmq_spark.batch.held import HeldLease
from rmq_spark.batch.verdicts import Verdicts

log = logging.getLogger(__name__)

OnFailure: TypeAlias = Literal["nack", "keep"]


@contextmanager
def settled(held: Sequence[HeldLease], on_failure: OnFailure) -> Iterator[Verdicts]:
    """Settle what is held when the block ends. Raises LeaseLost for the first lease that is lost."""
    verdicts = Verdicts(held)
    try:
        yield verdicts
        verdicts.settle_all()
    except Exception as error:
        lost = error.lease_id if isinstance(error, LeaseLost) else None
        for each in held if on_failure == "nack" else ():
            if each.lease.id != lost:
                _nack(each, verdicts, f"{type(error).__name__}: {error}"[:500])
        raise
    _ack(held)


def _ack(held: Sequence[HeldLease]) -> None:
    failures = []
    for each in held:
        try:
            if not each.lease.fate.settled:
                each.queue.ack(each.lease)
        except RedisMessageQueueError as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _nack(held: HeldLease, verdicts: Verdicts, reason: str) -> None:
    queue, lease = held
    try:
        verdicts.settle(held)
        if not lease.fate.settled:
            queue.nack(lease, reason=reason)
    except RedisMessageQueueError as error:  # the failure of the work is what the caller has to see
        log.warning("lease %r could not be nacked, it will expire: %s", lease.id, error)
