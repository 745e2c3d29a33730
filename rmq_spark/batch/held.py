"""The messages of a batch, and the name of the claim that got them."""

from __future__ import annotations

from hashlib import sha256

from rmq_core import Batch, LeasedQueue
from rmq_core.reports import LeaseInfo

LONGEST_NAME = 200


class HeldBatch(Batch):
    """The messages of a lease that the driver holds."""

    queue: LeasedQueue


def name_of(lease: LeaseInfo) -> str:
    """Return a name unique to this claim: the id of the lease and the time of its claim, which no takeover changes.

    The id alone is not unique: after a lease expired or was nacked, a new claim can use its id for other messages.
    """
    name = f"{lease.id}@{round(lease.claimed_at.timestamp() * 1000)}"
    return name if len(name) <= LONGEST_NAME else sha256(name.encode()).hexdigest()
