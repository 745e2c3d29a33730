"""Claims under a name: a retry finds the lease of the earlier attempt, and no claimant takes the lease of another.

Law: a lease is taken over only from an earlier attempt at the same work, or from the process that handed it over. A
stale copy of the work, or another claimant that uses the same lease id, is refused and changes nothing. The messages
that a deleted run of the same name held return to the queue. Messages that it settled do not count for this run.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

from rmq_core.discipline.leased.sync import LeasedQueue
from rmq_core.errors import ConfigurationError, LeaseAlreadySettled, LeaseLost, LeaseOwnedByOther
from rmq_core.messages import Lease
from rmq_core.reports import SettledRecord

OnSettled: TypeAlias = Literal["skip", "next"]
log = logging.getLogger(__name__)


class Relation(StrEnum):
    """How the owner of a lease, or of a settled record, is related to a claimant."""

    OURS = "an earlier attempt at this work, or this one"
    FORMER = "a run of the same name that was deleted"
    FOREIGN = "another claimant"


class Claimant(Protocol):
    """The identity of a claimant. The lease id names the work and survives retries; the owner names the attempt."""

    @property
    def lease_id(self) -> str:
        """The lease id: the same for every attempt."""

    @property
    def owner(self) -> str:
        """The owner: a different one for every attempt."""

    def relation(self, owner: str) -> Relation:
        """Return how `owner` is related to this attempt."""


class Claimed(NamedTuple):
    """The result of a claim; `lease` is None when the queue was empty.

    settled_before: whether this same work is known to have settled messages under this name before.
    """

    lease: Lease | None
    settled_before: bool = False

    @property
    def isolated(self) -> int:
        """How many of the messages had failed together before and were therefore claimed apart from others."""
        return self.lease.count if self.lease is not None and self.lease.isolation is not None else 0


def claim_as(
    claimant: Claimant,
    queue: LeasedQueue,
    *,
    max_messages: int,
    lease: timedelta | float | None = None,
    on_settled: OnSettled = "next",
    named: str | None = None,
    sequential: bool = False,
    check_settled: Callable[[LeaseAlreadySettled, SettledRecord], None] | None = None,
) -> Claimed:
    """Take over the lease of an earlier attempt; without one, claim.

    named: the lease id; None for the claimant's own. on_settled: applies when all messages under that name were acked:
    `next` claims more under `<id>#2`, `#3`, …; `skip` raises LeaseAlreadySettled. check_settled: called once in that
    case, before `on_settled` applies, with the error and the settled record; it may raise another error. sequential:
    see `claim`. Raises
    LeaseOwnedByOther when another owner has the lease.
    """
    settled_before = False
    for lease_id in names(named or claimant.lease_id):
        owner = _freed(claimant, queue, lease_id)
        if owner is not None:
            refuse_foreign(claimant, lease_id, owner)
        try:
            taken = queue.claim(
                max_messages=max_messages, lease=lease, lease_id=lease_id, owner=claimant.owner, sequential=sequential
            )
        except LeaseAlreadySettled as settled:
            record = _record_of_ours(claimant, queue, lease_id)
            if record is None:
                continue
            if check_settled is not None and not settled_before:
                check_settled(settled, record)
            settled_before = True
            if on_settled == "skip":
                raise
        else:
            return Claimed(taken, settled_before)
    raise AssertionError  # pragma: no cover  `names` never ends


def has_left(claimant: Claimant, queue: LeasedQueue) -> bool:
    """Return whether an earlier attempt left a lease. Messages that a deleted run left return to the queue."""
    lease_id = next(name for name in names(claimant.lease_id) if queue.settled(name) is None)
    owner = _freed(claimant, queue, lease_id)
    return owner is not None and claimant.relation(owner) is Relation.OURS


def refuse_foreign(claimant: Claimant, lease_id: str, owner: str) -> None:
    """Raise LeaseOwnedByOther for an owner whose lease the claimant may not take over."""
    if claimant.relation(owner) is not Relation.OURS:
        raise LeaseOwnedByOther(lease_id, f"it is owned by {owner!r}, which is not an earlier try of this work")


def names(lease_id: str) -> Iterator[str]:
    """Yield the lease ids of one piece of work, in order: `<id>`, `<id>#2`, `<id>#3`, and so on."""
    yield lease_id
    yield from (f"{lease_id}#{number}" for number in itertools.count(2))


def check_on_settled(on_settled: str) -> None:
    """Raise ConfigurationError for an unknown value."""
    if on_settled not in get_args(OnSettled):
        raise ConfigurationError(f"on_settled must be one of {', '.join(get_args(OnSettled))}, not {on_settled!r}")


def _freed(claimant: Claimant, queue: LeasedQueue, lease_id: str) -> str | None:
    """Return the owner of a lease; None if there is no lease, or after releasing that of a deleted run."""
    info = queue.lease_info(lease_id)
    if info is None:
        return None
    if claimant.relation(info.owner) is not Relation.FORMER:
        return info.owner
    try:
        released = queue.admin.release_lease(lease_id, if_owner=info.owner).settled
    except (LeaseLost, LeaseAlreadySettled):  # meanwhile its holder settled it, or it expired
        return None
    log.info("Released %d messages of lease %s: %s held it in a run that was deleted.", released, lease_id, info.owner)
    return None


def _record_of_ours(claimant: Claimant, queue: LeasedQueue, lease_id: str) -> SettledRecord | None:
    """Return the settled record of that name; None if a deleted run wrote it or it has just expired."""
    record = queue.settled(lease_id)
    if record is None or claimant.relation(record.owner) is Relation.FORMER:
        log.info(
            "Lease %s was settled by a run, or an iteration, of the same name that was deleted; trying the next id.",
            lease_id,
        )
        return None
    log.info("%s has acked %d messages under lease %s.", record.owner, record.acked, lease_id)
    return record
