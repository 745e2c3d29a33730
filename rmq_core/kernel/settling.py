"""Code for settling and extending leases that all disciplines share.

`settle` serves the disciplines where Redis keeps no record of single settled messages: the lease's state records them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias

from rmq_core.envelope.codec import Message, MessageRef
from rmq_core.envelope.payloads import one_line
from rmq_core.errors import ConfigurationError, LeaseAlreadySettled, LeaseLost, LeaseOwnedByOther, ScriptFailed
from rmq_core.events import Operation
from rmq_core.exchange import Call, Command, Exchange, Pipeline, text_of
from rmq_core.kernel.keys import check_name
from rmq_core.messages import Lease, token_of
from rmq_core.observe.fact import Act
from rmq_core.observe.history import BREAKER, actor
from rmq_core.policy import Breaker, moment
from rmq_core.reports import LeaseInfo, Outcome, SettledRecord, SettleReport

Some: TypeAlias = Iterable[Message | MessageRef]
"""Some of the messages of a lease, where an operation does not apply to all."""
_log = logging.getLogger("rmq")
_DONE = {Outcome.SETTLED, Outcome.DEAD}


class Capped(Protocol):
    """The part of an engine whose dead letters have a limit."""

    config: Any

    @property
    def name(self) -> str: ...


class Reporting(Capped, Protocol):
    """The part of an engine that states what a script reports besides its reply."""

    def state(
        self, kind: Operation | Act, count: int = 1, /, *, reason: str | None = None, by: str | None = None
    ) -> None:
        """State what happened to messages."""


class Reclaimed(NamedTuple):
    """What a reclaim did. found: whether there was such a lease. owner: who holds it instead of the required owner."""

    settled: int = 0
    dead: int = 0
    found: bool = False
    owner: str | None = None


_AT_ONCE = 1000


def leases_of(
    owner: str, ids: Sequence[bytes | str], infos_of: Callable[[list[str]], Exchange[list[LeaseInfo]]]
) -> Exchange[list[str]]:
    """Return the ids of those leases that the owner holds. Raises ConfigurationError for an empty owner."""
    check_name("owner", owner)
    found: list[str] = []
    for lo in range(0, len(ids), _AT_ONCE):
        infos = yield from infos_of([text_of(name) for name in ids[lo : lo + _AT_ONCE]])
        found += [info.id for info in infos if info.owner == owner]
    return found


def end_each(ids: Iterable[str], end: Callable[[str], Exchange[SettleReport]]) -> Exchange[SettleReport]:
    """End leases one after the other; those that end meanwhile, or that somebody else takes over, are left alone."""
    settled = dead = 0
    for lease_id in ids:
        with suppress(LeaseLost, LeaseOwnedByOther, LeaseAlreadySettled):
            report = yield from end(lease_id)
            settled, dead = settled + report.settled, dead + report.dead
    return SettleReport(settled, dead)


def cause_of(reason: str | None) -> str:
    """Return why somebody expired a lease, as the history of its messages has it: the reason, or who it was."""
    return one_line(reason) or one_line(f"by {actor()}")


def expired(done: Reclaimed, lease_id: str, if_owner: str | None, record: bytes) -> Exchange[SettleReport]:
    """Return the report of a lease that was expired by its id; raise why it was not.

    record: the key that tells whether the lease was acked as a whole.
    """
    if done.owner is not None:
        raise LeaseOwnedByOther(lease_id, f"it is owned by {done.owner!r}, not by {if_owner!r}")
    if not done.found:
        acked = yield Command(("GET", record))
        if acked is not None:
            raise LeaseAlreadySettled(lease_id, int(acked.split()[0]))
        raise LeaseLost(lease_id, "there is no lease of this id")
    return SettleReport(done.settled, done.dead)


def settled_record(lease_id: str, key: bytes) -> Exchange[SettledRecord | None]:
    """Return the record that a lease, whose id the caller chose, was acked as a whole; None when there is none."""
    record = yield Command(("GET", key))
    if record is None:
        return None
    acked, at_ms, owner = text_of(record).split(" ", 2)
    return SettledRecord(lease_id, int(acked), owner, moment(at_ms))


def check_queue(queue: str, lease: Lease) -> None:
    """Raise ConfigurationError for a lease of another queue, or for one read from JSON, which has no token."""
    if lease.queue != queue:
        raise ConfigurationError(f"lease {lease.id!r} is of queue {lease.queue!r}; settle it there, not in {queue!r}")
    token_of(lease)


def of_lease(lease: Lease, messages: Some) -> list[Message | MessageRef]:
    """Return these messages of a lease as a list.

    Raises ConfigurationError for a message of another lease, and for what is no message, such as an id.
    """
    try:
        found = list(messages)
        for message in found:
            if message.lease_id != lease.id:
                raise ConfigurationError(
                    f"message {message.id!r} belongs to lease {message.lease_id!r}, not to {lease.id!r}"
                )
    except (AttributeError, TypeError) as error:
        raise ConfigurationError(
            f"messages must be messages of the lease, as in `queue.ack(lease, [message])` or `batch.ack(message)`, not "
            f"{messages!r:.80}"
        ) from error
    return found


def places_of(lease: Lease, messages: Some) -> list[int]:
    """Return the indexes of these messages. Raises ConfigurationError for a message that the lease has not."""
    found = of_lease(lease, messages)
    for message in found:
        if not 0 <= message.index < lease.count:
            raise ConfigurationError(f"lease {lease.id!r} of {lease.count} messages has no message {message.index}")
    return [message.index for message in found]


def open_places(lease: Lease) -> list[int]:
    """Return the indexes of the messages that this process has not settled."""
    return [place for place in range(lease.count) if place not in lease.state.done]


def lost(lease: Lease) -> LeaseLost:
    """Mark a lease as lost and return the error to raise."""
    lease.state.lost = True
    return LeaseLost(lease.id)


def settle(
    queue: str, lease: Lease, messages: Some | None, send: Callable[[list[int]], Exchange[list[Outcome]]]
) -> Exchange[SettleReport]:
    """Settle a lease, or some of its messages. `send` settles the messages at the given indexes in Redis.

    Raises LeaseLost for a whole lease without unsettled messages, ConfigurationError for a lease of another queue.
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
    """Return the outcomes of `count` messages from a script's reply: one letter each, after a word or alone.

    Raises LeaseLost for the reply `lost`, ScriptFailed for any other reply.
    """
    if reply == b"lost":
        raise lost(lease)
    named = reply.decode().rpartition(" ")[2]
    if len(named) != count or set(named) - letters.keys():
        raise ScriptFailed(f"settling lease {lease.id!r} got {reply.decode()!r}")
    return [letters[letter] for letter in named]


def without_report(engine: Reporting, reply: bytes) -> bytes:
    """Return the reply of a script without what it reports (kernel/include/trimmed.lua); state and log that."""
    kept, number, breaker = reported_in(engine, reply)
    engine.state(Operation.DROP, number)
    if breaker:
        reason = Breaker.of_stored(breaker).reason  # not that of the config: settings may have changed with this reply
        engine.state(Act.PAUSE, by=BREAKER, reason=reason)
        _log.warning(
            "queue %r paused itself after %s: claims get nothing, and publishing goes on. See why they died with"
            " `rmq dlq reasons QUEUE`, fix or roll back the consumer, then `rmq resume QUEUE` (in Python,"
            " `queue.admin.resume()`)", engine.name, reason,
        )  # fmt: skip
    return kept


def reported_in(engine: Capped, reply: bytes) -> tuple[bytes, int, str]:
    """Return the reply of a script, how many dead letters it deleted, and the breaker that tripped; log the former."""
    kept, _, report = reply.partition(b"\t")
    number, _, breaker = report.decode().partition(" ")
    trimmed = int(number or 0)
    if trimmed:
        _log.warning(
            "queue %r deleted its %d oldest dead letters, because it keeps max_dead=%d: redrive or purge them, export"
            " them in time, or raise max_dead", engine.name, trimmed, engine.config.max_dead,
        )  # fmt: skip
    return kept, trimmed, breaker


def deadline_of(lease: Lease, reply: bytes) -> datetime | None:
    """Return the deadline that a script reports, None for a lease that never expires. Raises LeaseLost."""
    if reply == b"lost":
        raise lost(lease)
    return None if reply == b"inf" else moment(reply)


def extend_each(calls: Iterable[Call]) -> Exchange[list[bool]]:
    """Extend many leases in one write; return False for each that is lost."""
    replies = yield Pipeline(tuple(calls))
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return [reply != b"lost" for reply in replies]


def settled_whole(lease: Lease, found: Sequence[Outcome]) -> SettleReport:
    """Record that every message of a lease is settled, and return the report."""
    lease.state.settled = True
    return SettleReport(sum(outcome in _DONE for outcome in found), found.count(Outcome.DEAD))


def settled_some(lease: Lease, places: Sequence[int], outcomes: Mapping[int, Outcome]) -> SettleReport:
    """Record which messages of a lease are settled, and return the report, in the order of `places`."""
    state, named = lease.state, tuple(outcomes.get(place, Outcome.SETTLED_BEFORE) for place in places)
    state.done |= {place for place, outcome in outcomes.items() if outcome in _DONE}
    state.partly, state.settled = True, len(state.done) == lease.count
    state.lost = state.lost or Outcome.LOST in named
    found = list(outcomes.values())
    return SettleReport(sum(outcome in _DONE for outcome in found), found.count(Outcome.DEAD), named)
