"""Messages and leases: frozen values that do no IO. The fields of a message are in `rmq_core.envelope.codec`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, overload

from rmq_core.envelope.codec import MESSAGE_FIELDS as MESSAGE_FIELDS
from rmq_core.envelope.codec import Failure as Failure
from rmq_core.envelope.codec import Message as Message
from rmq_core.envelope.codec import MessageField as MessageField
from rmq_core.envelope.codec import MessageRef as MessageRef
from rmq_core.envelope.codec import Publishable, TypedMessage, message_of
from rmq_core.envelope.codec import header_items as header_items
from rmq_core.envelope.codec import header_texts as header_texts
from rmq_core.envelope.codec import json_text as json_text
from rmq_core.envelope.codec import plain_fields as plain_fields
from rmq_core.errors import ConfigurationError, LeaseLost
from rmq_core.policy import moment


class NewMessage(NamedTuple):
    """A message for `publish_many` and `stage` with an id, headers, a delay or a deduplication key of its own.

    id: replaces the generated one; up to 512 characters without spaces. RMQ does not check that it is unique.
    delay: seconds or timedelta. dedup_key: replaces the key of the queue or of the call. group, priority: see `Groups`.
    publication, expires: see `publish`.
    """

    payload: Publishable
    id: str | None = None
    headers: Mapping[str, str] | None = None
    delay: timedelta | float | None = None
    dedup_key: str | bytes | None = None
    group: str | None = None
    priority: int | None = None
    publication: str | None = None
    expires: timedelta | float | datetime | None = None

    @property
    def wraps_payload(self) -> bool:
        """It is a tuple, but no payload itself."""
        return True


@dataclass(frozen=True, slots=True)
class Stage:
    """Messages staged by `stage`: the stage's id, their number, and whether none has a delay or deduplication key."""

    id: str
    count: int
    plain: bool


class Messages(Sequence[Message]):
    """The messages that came with a claim, decoded on access."""

    __slots__ = ("_delivered", "_envelopes", "_lease_id")

    @classmethod
    def of(cls, lease: Lease) -> Messages:
        """Return the messages of a lease, as the codec of its queue reads them."""
        codec, given = lease.state.codec, (envelopes_of(lease), lease.id, lease.takeovers + 1)
        return Messages(*given) if codec is None else TypedMessages(*given, codec)

    def __init__(self, envelopes: Sequence[bytes], lease_id: str, delivered: int) -> None:
        self._envelopes, self._lease_id, self._delivered = envelopes, lease_id, delivered

    def __len__(self) -> int:
        return len(self._envelopes)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        places = range(len(self._envelopes))[index]
        if isinstance(places, range):
            return [self._at(place) for place in places]
        return self._at(places)

    def __iter__(self) -> Iterator[Message]:
        return map(self._at, range(len(self._envelopes)))

    def _at(self, place: int) -> Message:
        return message_of(self._envelopes[place], place, self._lease_id, self._delivered)


class TypedMessages(Messages):
    """The same, of a queue that has a codec."""

    __slots__ = ("_codec",)

    def __init__(self, envelopes: Sequence[bytes], lease_id: str, delivered: int, codec: Any) -> None:
        super().__init__(envelopes, lease_id, delivered)
        self._codec = codec

    def _at(self, place: int) -> Message:
        return TypedMessage.of(super()._at(place), self._codec)


class Isolation(NamedTuple):
    """Why a claim got fewer messages than it requested: they failed together before and are retried apart.

    failures: in how many leases of several messages they failed. most: how many of them one claim takes at most.
    """

    failures: int
    most: int

    def __str__(self) -> str:
        return (
            f"these have failed together before ({self.failures} times) and are tried apart from the others, at most"
            f" {self.most} at a time"
        )


class IsolatedGroup(NamedTuple):
    """Ready messages that failed together: `size` of them, of which one claim takes `most` at most."""

    size: int
    most: int


class Sizes(NamedTuple):
    """How long messages of a lease are, in bytes: those that this process has read, and the average of all in Redis.

    average: includes what Redis adds to each; 0 if it does not say.
    """

    seen: int
    total: int
    longest: int
    average: float


class LeaseState:
    """The state of a lease as this process knows it.

    settled: all of its messages are settled. partly: some are. returned: some were nacked or released. lost: the lease
    is gone. until: the monotonic time from which on it counts as lost. began: the monotonic time of the claim, 0 when
    it is unknown. done: the indexes that this process settled one by one, when Redis keeps no record of them. begun,
    ended: how many settlements of the lease, or of a part of it, have begun and ended; `with state:` counts them, and a
    heartbeat compares them to detect a settlement that runs at the same time. joined: this process only works for the
    holder, who ends the lease. span: the context of the span of its claim, if that was traced. sizes: how long its
    messages are, if it is large. codec: what the payloads are read with; None for the codec json.
    """

    lost = partly = settled = joined = returned = False
    until = inf
    began = 0.0
    span: Any = None
    codec: Any = None
    sizes: Sizes | None = None
    done: frozenset[int] = frozenset()
    begun = ended = 0
    _counting = Lock()
    """One lock for all leases. Threads may settle parts of a lease at once; a lock per lease would slow every claim."""

    def __enter__(self) -> None:
        with self._counting:
            self.begun += 1

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self.ended += 1

    def __reduce__(self) -> tuple[type[LeaseState], tuple[()]]:
        return LeaseState, ()  # a copy in another process starts anew: heartbeat and clock differ

    @classmethod
    def count_anew(cls) -> None:
        """Replace the lock in a forked child, because a thread of the parent may have held it during the fork."""
        cls._counting = Lock()


os.register_at_fork(after_in_child=LeaseState.count_anew)


@dataclass(frozen=True, slots=True)
class Lease:
    """1 to N messages held by one owner until a deadline.

    `token` is the right to settle: keep it out of logs, XCom and tags. `to_json` leaves it out; a lease read back with
    `from_json` can only be adopted.
    """

    queue: str
    id: str
    owner: str
    count: int
    deadline_ms: int | None
    token: str | None = field(repr=False)
    takeovers: int = 0
    named: bool = False
    isolation: Isolation | None = None
    """Why the claim got fewer messages than it requested, if they failed together before; else None."""
    envelopes: tuple[bytes, ...] | list[bytes] | None = field(default=None, repr=False, compare=False)
    state: LeaseState = field(default_factory=LeaseState, repr=False, compare=False)
    parts: tuple[tuple[str, Lease], ...] = field(default=(), repr=False, compare=False)
    """Where its messages are, in order, if they are in several shards: the shard, and the lease there."""

    @property
    def deadline(self) -> datetime | None:
        """The time at which it expires unless extended, in UTC by the server's clock; None means never."""
        return None if self.deadline_ms is None else moment(self.deadline_ms)

    @property
    def complete(self) -> bool:
        """Whether its messages came with the claim."""
        return self.envelopes is not None and len(self.envelopes) == self.count

    @property
    def messages(self) -> Sequence[Message]:
        """The messages, when they came with the claim; read a large or adopted lease with `queue.messages(lease)`."""
        return Messages.of(self)

    @property
    def message(self) -> Message:
        """The only message of a lease of one."""
        made = message_of(envelope_of(self), 0, self.id, self.takeovers + 1)
        return made if self.state.codec is None else TypedMessage.of(made, self.state.codec)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of its messages, when they came with the claim; '' is that of messages without a group."""
        return tuple(dict.fromkeys(message.group for message in self.messages))

    @property
    def lost(self) -> bool:
        """Whether the lease is gone for good: Redis reported it, or the heartbeat could not extend it in time.

        Once it was true, it stays true, and the end of a `process` block raises LeaseLost instead of acking, because
        the block may have left its work. Redis may still have the lease then: a blocked event loop keeps heartbeats
        from running. In a forked child, to which no heartbeat reports, it is true only for what Redis answered there.
        """
        state = self.state
        if monotonic() >= state.until:
            state.lost = True  # final: after a late heartbeat reply the holder may have given up already
        return state.lost and not state.settled

    def check(self) -> None:
        """Raise LeaseLost when the lease is known to be gone; call it before a step that cannot be undone."""
        if self.lost:
            raise LeaseLost(self.id)

    def to_json(self) -> str:
        """Return queue, id, owner, count and deadline as JSON, without the token."""
        plain = {"queue": self.queue, "id": self.id, "owner": self.owner, "count": self.count}
        return json.dumps({**plain, "deadline_ms": self.deadline_ms, "named": self.named})

    @classmethod
    def from_json(cls, text: str) -> Lease:
        """Return the lease that `to_json` described; it has no token and can only be adopted by its id.

        Raises ConfigurationError for any other text.
        """
        try:
            plain = json.loads(text)
            return cls(
                plain["queue"], plain["id"], plain["owner"], plain["count"], plain["deadline_ms"], None,
                named=plain["named"],
            )  # fmt: skip
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError("text must be what Lease.to_json returned") from error


def token_of(lease: Lease) -> str:
    """Return the token, which permits settling a lease; raise ConfigurationError when the lease was read from JSON."""
    if lease.token is None:
        raise ConfigurationError(f"lease {lease.id!r} was read from JSON and has no token; adopt(lease.id) it first")
    return lease.token


def envelopes_of(lease: Lease) -> Sequence[bytes]:
    """Return the messages of a lease as stored; raise ConfigurationError when they did not come with the claim."""
    if lease.envelopes is None or len(lease.envelopes) != lease.count:
        raise ConfigurationError(
            f"the {lease.count} messages of lease {lease.id!r} are not in memory; iterate over queue.messages(lease)"
        )
    return lease.envelopes


def envelope_of(lease: Lease) -> bytes:
    """Return the message of a lease of one, as stored; raise ConfigurationError for more than one."""
    if lease.count != 1:
        raise ConfigurationError(f"lease {lease.id!r} holds {lease.count} messages; use `messages`")
    return envelopes_of(lease)[0]
