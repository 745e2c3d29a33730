"""Claims under a name, what happens to their leases after a failure, and the names of publishers.

Law: a lease is taken over only from an earlier attempt at the same work, or from the process that handed it over. A
stale copy of the work, or another claimant that uses the same lease id, is refused and changes nothing. The messages
that a deleted run of the same name held return to the queue. Messages that it settled do not count for this run.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, get_args

from rmq_core.errors import (
    ConfigurationError,
    LeaseAlreadySettled,
    LeaseLost,
    LeaseOwnedByOther,
    QueueUnavailable,
    RedisMessageQueueError,
)
from rmq_core.exchange import Exchange
from rmq_core.kernel.keys import check_name
from rmq_core.leased.queue import LeasedQueue
from rmq_core.messages import Lease, NewMessage
from rmq_core.observe.fact import Begin, Invocation, begin_with
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
    groups: Collection[str] | None = None,
    check_settled: Callable[[LeaseAlreadySettled, SettledRecord], None] | None = None,
) -> Claimed:
    """Take over the lease of an earlier attempt; without one, claim.

    named: the lease id; None for the claimant's own. on_settled: applies when all messages under that name were acked:
    `next` claims more under `<id>#2`, `#3`, …; `skip` raises LeaseAlreadySettled. check_settled: called once in that
    case, before `on_settled` applies, with the error and the settled record; it may raise another error. sequential,
    groups: see `claim`. Raises LeaseOwnedByOther when another owner has the lease.
    """
    settled_before = False
    for lease_id in names(named or claimant.lease_id):
        owner = _freed(claimant, queue, lease_id)
        if owner is not None:
            refuse_foreign(claimant, lease_id, owner)
        try:
            taken = queue.claim(
                max_messages=max_messages, lease=lease, lease_id=lease_id, owner=claimant.owner, sequential=sequential,
                groups=groups,
            )  # fmt: skip
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


P = TypeVar("P")
Q = TypeVar("Q")
Publisher: TypeAlias = Callable[[], Mapping[str, str]]
"""Returns the headers that name the publisher; none if there is nobody to name."""
_LISTS = ("publish_many", "stage")


def publishing_as(queue: Q, publisher: Publisher) -> Q:
    """Return the queue; from now on, the messages that it publishes or stages carry the headers of the publisher.

    These replace headers of the same names, which may be copies of those of another message. `publisher` is called once
    for each call.
    """
    begin_with(queue, functools.partial(_named, publisher))
    return queue


@contextmanager
def kept_open(queue: Any, publication: str | None) -> Iterator[None]:
    """Keep a publication, if one is named, from ending before the block has; so it exists without messages too."""
    if publication is None:
        yield
        return
    queue.open_publication(publication)
    try:
        yield
    finally:
        with suppress(QueueUnavailable):  # the messages are there; without this it ends some minutes later
            queue.close_publication(publication)


def with_publisher(message: Any, publisher: Mapping[str, str]) -> Any:
    """Return a message with the publisher's headers if it has headers of its own, which replace those of the call."""
    if not isinstance(message, NewMessage) or message.headers is None:
        return message
    return message._replace(headers={**message.headers, **publisher})


def by_queue(payloads: Iterable[P], queue_of: Callable[[P], str]) -> dict[str, list[P]]:
    """Return payloads by the name of the queue that each belongs in, in their order.

    Reads all payloads. Raises ConfigurationError for a name that no queue can have; as nothing is published by then, a
    retry does not publish the payloads before it once more.
    """
    found: dict[str, list[P]] = {}
    for place, payload in enumerate(payloads):
        name = queue_of(payload)
        if name not in found:
            try:
                check_name("the name of its queue", name)
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"payload {place} belongs in no queue, so none was published: {error}"
                ) from None
        found.setdefault(name, []).append(payload)
    return found


def _named(publisher: Publisher, begin: Begin, call: Invocation) -> Exchange[Any]:
    own = publisher() if call.verb == "publish" or call.verb in _LISTS else None
    if not own:
        return begin(call)
    args, kwargs = call.args, {**call.kwargs, "headers": {**(call.kwargs.get("headers") or {}), **own}}
    if call.verb in _LISTS:
        each = functools.partial(with_publisher, publisher=own)
        if args:
            args = (map(each, args[0]), *args[1:])
        elif "payloads" in kwargs:
            kwargs["payloads"] = map(each, kwargs["payloads"])
    return begin(call._replace(args=args, kwargs=kwargs))
