"""Settling messages of a lease one by one where Redis keeps no record of it: the lease's fate remembers them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rmq_core.envelope.codec import Message, MessageRef
from rmq_core.errors import ConfigurationError, LeaseLost
from rmq_core.messages import Lease, token_of
from rmq_core.reports import Outcome, SettleReport

_DONE = {Outcome.SETTLED, Outcome.DEAD}


def check_queue(queue: str, lease: Lease) -> None:
    """ConfigurationError for a lease of another queue, or one read from JSON, which has no token."""
    if lease.queue != queue:
        raise ConfigurationError(f"lease {lease.id!r} is of queue {lease.queue!r}; settle it there, not in {queue!r}")
    token_of(lease)


def places_of(lease: Lease, messages: Iterable[Message | MessageRef]) -> list[int]:
    """The indexes of these messages; ConfigurationError for one of another lease."""
    places = []
    for message in messages:
        if message.lease_id != lease.id or not 0 <= message.index < lease.count:
            raise ConfigurationError(
                f"message {message.id!r} belongs to lease {message.lease_id!r}, not to {lease.id!r}"
            )
        places.append(message.index)
    return places


def open_places(lease: Lease) -> list[int]:
    """The indexes that this process has not settled."""
    return [place for place in range(lease.count) if place not in lease.fate.done]


def lost(lease: Lease) -> LeaseLost:
    """Note that a lease is gone; the error to raise."""
    lease.fate.lost = True
    return LeaseLost(lease.id)


def settled_whole(lease: Lease, outcomes: Iterable[Outcome]) -> SettleReport:
    """Note that every message of a lease is settled; what became of them."""
    lease.fate.settled = True
    found = list(outcomes)
    return SettleReport(sum(outcome in _DONE for outcome in found), found.count(Outcome.DEAD))


def settled_some(lease: Lease, places: Sequence[int], outcomes: Mapping[int, Outcome]) -> SettleReport:
    """Note which messages of a lease are settled; the report in the order in which they were given."""
    fate, told = lease.fate, tuple(outcomes.get(place, Outcome.SETTLED_BEFORE) for place in places)
    fate.done |= {place for place, outcome in outcomes.items() if outcome in _DONE}
    fate.partly, fate.settled = True, len(fate.done) == lease.count
    fate.lost = fate.lost or Outcome.LOST in told
    found = list(outcomes.values())
    return SettleReport(sum(outcome in _DONE for outcome in found), found.count(Outcome.DEAD), told)
