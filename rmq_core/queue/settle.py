"""Ending leases and extending them, as far as it is the same for every discipline.

`settle` is for those where Redis keeps no record of what was settled one by one: the lease's state remembers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from rmq_core.envelope.codec import Message, MessageRef
from rmq_core.errors import ConfigurationError, LeaseLost, ScriptFailed
from rmq_core.exchange import Batch, Call, Exchange
from rmq_core.messages import Lease, token_of
from rmq_core.reports import Outcome, SettleReport

Some: TypeAlias = Iterable[Message | MessageRef]
"""The messages of a lease that are meant, where not all are."""
_DONE = {Outcome.SETTLED, Outcome.DEAD}


def check_queue(queue: str, lease: Lease) -> None:
    """ConfigurationError for a lease of another queue, or one read from JSON, which has no token."""
    if lease.queue != queue:
        raise ConfigurationError(f"lease {lease.id!r} is of queue {lease.queue!r}; settle it there, not in {queue!r}")
    token_of(lease)


def places_of(lease: Lease, messages: Some) -> list[int]:
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
    return [place for place in range(lease.count) if place not in lease.state.done]


def lost(lease: Lease) -> LeaseLost:
    """Note that a lease is gone; the error to raise."""
    lease.state.lost = True
    return LeaseLost(lease.id)


def settle(
    queue: str, lease: Lease, messages: Some | None, send: Callable[[list[int]], Exchange[list[Outcome]]]
) -> Exchange[SettleReport]:
    """End a lease, or some of its messages. `send` asks Redis for the messages at these indexes.

    Raises LeaseLost for a whole lease of which nothing is left, ConfigurationError for one of another queue.
    """
    with lease.state:
        check_queue(queue, lease)
        asked = open_places(lease) if messages is None else places_of(lease, messages)
        places = sorted(set(asked) - lease.state.done)
        if messages is None and not places:
            raise lost(lease)
        found = (yield from send(places)) if places else []
        if messages is None:
            return settled_whole(lease, found)
        return settled_some(lease, asked, dict(zip(places, found, strict=True)))


def outcomes_of(lease: Lease, reply: bytes, count: int, letters: Mapping[str, Outcome]) -> list[Outcome]:
    """What became of `count` messages: a script says a letter for each, behind a word or alone, or `lost`.

    Raises LeaseLost; ScriptFailed for any other reply.
    """
    if reply == b"lost":
        raise lost(lease)
    told = reply.decode().rpartition(" ")[2]
    if len(told) != count or set(told) - letters.keys():
        raise ScriptFailed(f"settling lease {lease.id!r} got {reply.decode()!r}")
    return [letters[letter] for letter in told]


def deadline_of(lease: Lease, reply: bytes) -> datetime | None:
    """The deadline that a script says it has set, None for never. Raises LeaseLost."""
    if reply == b"lost":
        raise lost(lease)
    return None if reply == b"inf" else datetime.fromtimestamp(int(reply) / 1000, UTC)


def extend_each(calls: Iterable[Call]) -> Exchange[list[bool]]:
    """Extend many leases in one write; False for each that is lost."""
    replies = yield Batch(tuple(calls))
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return [reply != b"lost" for reply in replies]


def settled_whole(lease: Lease, found: Sequence[Outcome]) -> SettleReport:
    """Note that every message of a lease is settled; what became of them."""
    lease.state.settled = True
    return SettleReport(sum(outcome in _DONE for outcome in found), found.count(Outcome.DEAD))


def settled_some(lease: Lease, places: Sequence[int], outcomes: Mapping[int, Outcome]) -> SettleReport:
    """Note which messages of a lease are settled; the report in the order in which they were given."""
    state, told = lease.state, tuple(outcomes.get(place, Outcome.SETTLED_BEFORE) for place in places)
    state.done |= {place for place, outcome in outcomes.items() if outcome in _DONE}
    state.partly, state.settled = True, len(state.done) == lease.count
    state.lost = state.lost or Outcome.LOST in told
    found = list(outcomes.values())
    return SettleReport(sum(outcome in _DONE for outcome in found), found.count(Outcome.DEAD), told)
