"""Reports of a queue: the results of publishing and settling, and what the queue holds. Frozen values without IO."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import starmap
from math import ceil
from typing import Any, NamedTuple, TypeAlias

from rmq_core.envelope.codec import Message
from rmq_core.messages import IsolatedGroup, Isolation
from rmq_core.policy import as_given, moment, shown


class Published(NamedTuple):
    """The id of a message and whether it was accepted; a duplicate is not.

    replaced: whether it took the place of a message that waited with its key, see `LeasedConfig.on_duplicate`.
    """

    id: str
    accepted: bool
    replaced: bool = False


class PublishReport(NamedTuple):
    """The result of publishing many payloads. `ids` has one entry per payload, None for a duplicate.

    replaced: how many of those accepted took the place of a message that waited with their key; that may have been one
    of the same call.
    """

    accepted: int
    duplicates: int
    dropped: int
    ids: tuple[str | None, ...]
    replaced: int = 0


class Outcome(StrEnum):
    """The result of settling one message."""

    SETTLED = "settled"
    DEAD = "dead"
    SETTLED_BEFORE = "settled before"
    MISSING = "missing"
    LOST = "lost"


class SettleReport(NamedTuple):
    """How many messages were settled and how many of them became dead letters; `outcomes` in the order of the call."""

    settled: int
    dead: int = 0
    outcomes: tuple[Outcome, ...] = ()


class RunReport(NamedTuple):
    """How many messages a run worked on.

    handled: acked. failed: nacked; dead: how many of these became dead letters. lost: not settled, because another
    consumer had taken them over or Redis was away; they are delivered again.
    """

    handled: int = 0
    failed: int = 0
    dead: int = 0
    lost: int = 0

    def __str__(self) -> str:
        return f"{self.handled:,} handled, {self.failed:,} failed ({self.dead:,} dead), {self.lost:,} lost"


class Backlog(NamedTuple):
    """How many messages are ready, and the age of the oldest of them in seconds.

    groups: the ready messages that failed together before and are retried apart from the others. paused: claims get
    no messages until the queue is resumed. fence: a number that grows with every claim, so that two backlogs with the
    same number show that nothing was claimed in between; None before the first claim, and for disciplines other than
    `leased`.
    """

    ready: int
    oldest_age: float | None
    groups: tuple[IsolatedGroup, ...] = ()
    paused: bool = False
    fence: int | None = None

    def claims(self, batch: int) -> int:
        """Return how many claims of `batch` messages claim all ready messages: each isolated group needs its own."""
        free = self.ready - sum(group.size for group in self.groups)
        return ceil(free / batch) + sum(ceil(group.size / min(batch, group.most)) for group in self.groups)


class MessagePage(NamedTuple):
    """A page of the `total` messages in one state. `due`: when each becomes ready; empty unless they are delayed."""

    total: int
    messages: list[Message]
    due: list[datetime]


class SearchPage(NamedTuple):
    """The messages that one step of a search found.

    due: when each becomes ready, for delayed ones. owners: who holds each, for leased ones. scanned: how many messages
    all steps have looked at so far. total: how many there are. after: for the next step, None after the last one.
    moved: messages moved since the step before, so some may be missed or found twice.
    """

    messages: list[Message]
    due: list[datetime]
    owners: list[str]
    scanned: int
    total: int
    after: str | None
    moved: bool = False


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Dead letters whose newest failures have the same reason, apart from numbers and ids, which `#` replaces.

    oldest, newest: the times of these failures; None if the history states none. example: the id of the newest.
    """

    reason: str
    count: int
    oldest: datetime | None
    newest: datetime | None
    example: str


class Progress(NamedTuple):
    """How far a long operation is: how many messages it changed, and how many of `total` it looked at."""

    changed: int
    scanned: int
    total: int


OnProgress: TypeAlias = Callable[[Progress], object]
"""Is called after each step; the operation stops when it returns False."""


class QueueStats(NamedTuple):
    """The contents of a queue: numbers of messages, of leases, and the age of the oldest ready message in seconds.

    isolated: how many of the ready messages failed together before and are retried apart from the others.
    oldest_lease: seconds since the lease was claimed that is held the longest; takeovers and heartbeats change nothing
    about that. None if there is no lease, and in disciplines that keep no list of leases.
    """

    ready: int
    delayed: int
    leased: int
    leases: int
    dead: int
    oldest_age: float | None
    paused: bool
    isolated: int = 0
    oldest_lease: float | None = None


@dataclass(frozen=True, slots=True)
class LeaseInfo:
    """A lease without its token. It holds `count` messages, of which `settled` are settled.

    state: `held`; while messages of a large lease move, `filling` or `returning`.
    """

    id: str
    owner: str
    state: str
    count: int
    settled: int
    takeovers: int
    claimed_at: datetime
    deadline: datetime | None
    fence: int
    isolation: Isolation | None = None


class SettledRecord(NamedTuple):
    """How many messages of a lease were acked, by which owner and when. The others had been nacked or released."""

    lease_id: str
    acked: int
    owner: str
    at: datetime


class ConsumerRegistration(NamedTuple):
    """A consumer's record: batches up to `finished` are finished; `before` is the stream before this one, if any."""

    finished: int
    before: str | None
    before_finished: int


class Differing(NamedTuple):
    """A program that passes other settings than those stored with the queue: its values, and when it last said so."""

    program: str
    passes: str
    at: datetime


_PRESENT_FOR_S = 120.0
"""A client is there if it recorded itself within this time; it does so about once a minute."""
_LEASE = re.compile(r"(?:^|, )lease=([\d.]+)s?(?:,|$)")


class Client(NamedTuple):
    """A program that uses a queue, as it recorded about once a minute while it did.

    role: `consumer`, which claims or holds messages, or waits for some; or `publisher`. A program may be both.
    settings: those that it passes and that are not the defaults; others may be stored with the queue. at: when it was
    there last. name: the `client_name` of its connection, empty without one.
    """

    role: str
    host: str
    pid: int
    version: str
    settings: str
    at: datetime
    name: str = ""

    @property
    def there(self) -> bool:
        """Whether it was there within two minutes, or, with a long lease, since its last heartbeat was due."""
        lease = _LEASE.search(self.settings)
        longest_s = max(_PRESENT_FOR_S, float(lease[1]) / 3 + _PRESENT_FOR_S / 2) if lease else _PRESENT_FOR_S
        return (datetime.now(UTC) - self.at).total_seconds() < longest_s


def programs(clients: Iterable[Client]) -> list[tuple[Client, int]]:
    """Return clients, each with how many it stands for: those that differ from it in their process alone.

    One that is there stands for itself, the first of the others for all of these: a program that runs for a second each
    minute is not listed a thousand times.
    """
    now = datetime.now(UTC)
    found: dict[tuple[object, ...], tuple[Client, int]] = {}
    for each in clients:
        same = each._replace(at=now, pid=each.pid if each.there else 0)
        first, count = found.get(same, (each, 0))
        found[same] = (first, count + 1)
    return list(found.values())


def total_stats(stats: Iterable[QueueStats | None]) -> QueueStats:
    """Return what the shards of a queue hold together; None is a shard that did not answer."""
    found = [each for each in stats if each is not None]
    ready, delayed, leased, leases, dead, isolated = (
        sum(getattr(each, name) for each in found)
        for name in ("ready", "delayed", "leased", "leases", "dead", "isolated")
    )
    oldest, held = (
        max((age for each in found if (age := getattr(each, name)) is not None), default=None)
        for name in ("oldest_age", "oldest_lease")
    )
    paused = any(each.paused for each in found)
    return QueueStats(ready, delayed, leased, leases, dead, oldest, paused, isolated, held)


class GroupStats(NamedTuple):
    """A group of a queue: how many of its messages wait, and how many leases hold some.

    name: '' for messages without a group. Messages with different priorities are listed apart, and so are isolated
    ones: those that failed together and are claimed apart. ready: whether a claim may get one now. until: the
    time at which it may, for a group that rests after a failure, or until the next message that a rate allows.
    """

    name: str
    priority: int
    waiting: int
    leases: int
    ready: bool
    isolated: bool
    until: datetime | None


class ShardStats(NamedTuple):
    """A shard of a queue, and what it holds.

    name: "0" for the one that has the keys of the queue itself. slot: in a Redis Cluster. draining: it gets no more
    messages, and goes when it is empty. epoch: the number of the last change of the shards that it knows of, 0 for
    none. stats: None if it did not answer; a lease with parts in several shards counts as one of the first. error: why
    it did not answer, else None.
    """

    name: str
    slot: int
    draining: bool
    epoch: int
    stats: QueueStats | None
    error: str | None = None


def skews(shards: Iterable[ShardStats]) -> dict[str, float]:
    """Return by name how many times the mean of ready messages each shard has. Draining shards are left out."""
    ready = {each.name: each.stats.ready for each in shards if each.stats and not each.draining}
    mean = sum(ready.values()) / max(1, len(ready))
    return {name: many / mean if mean else 1.0 for name, many in ready.items()}


class Publication(NamedTuple):
    """The messages that were published under one name. messages: how many there are of them in all.

    waiting: ready and delayed ones. removed: those that an operator purged or cancelled, and those that were replaced.
    publishers: how many still add messages. ended: when all was done, None before. It ends again if messages are added
    later, or redriven.
    """

    name: str
    messages: int
    waiting: int
    leased: int
    acked: int
    dead: int
    removed: int
    publishers: int
    ended: datetime | None

    @property
    def done(self) -> bool:
        """Whether each message is acked, dead or removed, and none will be added."""
        return self.ended is not None

    @classmethod
    def of(cls, name: str, stored: str, now_ms: int) -> Publication:
        """Return the counts that scripts store; see `leased/grouped/publications.lua`."""
        numbers = [int(number) for number in stored.split()] or [0] * 8
        total, waiting, leased, dead, removed, publishers, until_ms, ended_ms = numbers
        if stored and publishers and until_ms <= now_ms:  # they are gone, and nobody has noticed yet
            publishers, ended_ms = 0, ended_ms or (0 if waiting + leased else until_ms)
        acked = total - waiting - leased - dead - removed
        ended = moment(ended_ms) if ended_ms else None
        return cls(name, total, waiting, leased, acked, dead, removed, publishers, ended)


class QueueSettings(NamedTuple):
    """The settings of a queue, by name.

    in_force: those that this queue object follows: the stored ones, else those of its config. stored: those that are
    stored with the queue. differing: programs that passed other values within the last day, the latest first.
    """

    in_force: Mapping[str, Any]
    stored: Mapping[str, Any]
    differing: tuple[Differing, ...]

    @property
    def plain(self) -> dict[str, Any]:
        """The same as JSON has it; `settings` names the stored ones as command lines do.

        draining: the names of shards that get no more messages.
        """
        stored, in_force = (
            {name: as_given(value) for name, value in some.items()} for some in (self.stored, self.in_force)
        )
        said = ", ".join(starmap(shown, self.stored.items())) or "nothing"
        differing = [{**each._asdict(), "at": each.at.isoformat()} for each in self.differing]
        draining = list(getattr(self.in_force.get("shards"), "draining", ()))
        return {
            "settings": said, "stored": stored, "in_force": in_force, "differing": differing, "draining": draining,
        }  # fmt: skip
