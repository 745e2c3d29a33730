"""The interface of every discipline, so that orchestrators can use any of them: `WorkQueue` and its asyncio version.

A discipline declares its features as `Capabilities`. A call that needs any other feature raises `Unsupported` before
anything is sent; no argument is silently ignored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from rmq_core.batch import AsyncBatch, Batch
from rmq_core.envelope.codec import Message, MessageRef, Publishable
from rmq_core.errors import ConfigurationError, Unsupported
from rmq_core.interrupt_handler import Stop
from rmq_core.messages import Lease
from rmq_core.reports import Backlog, Published, PublishReport, QueueStats, RunReport, SettleReport


class Discipline(NamedTuple):
    """The description of a discipline, kept outside its package so that the package is loaded only when it is used.

    queue: the name of its class in the module `queue` of that package; the class in the module `aio` is Async<queue>.
    commands: the commands that it sends to Redis besides those that its scripts call. scripts: how the names of the
    scripts begin that it uses besides those of its own folder. keys: the part before the queue's name in its keys.
    bare: one of its keys is the queue's name alone. package: its package, when that is not in `rmq_core`.
    """

    name: str
    queue: str
    commands: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    keys: str = ""
    bare: bool = False
    package: str = ""

    def load(self, *, blocking: bool = True) -> Any:
        """Return its queue class: the blocking one, or the one for asyncio."""
        module = import_module(f"{self.package or f'rmq_core.{self.name}'}.{'queue' if blocking else 'aio'}")
        return getattr(module, self.queue if blocking else f"Async{self.queue}")


DISCIPLINES = {
    each.name: each
    for each in (
        Discipline(
            "leased",
            "LeasedQueue",
            (
                "BLPOP",
                "EXEC",
                "GET",
                "HGET",
                "MEMORY|USAGE",
                "MULTI",
                "PTTL",
                "SUBSCRIBE",
                "WAIT",
                "WAITAOF",
                "XREAD",
                "ZRANGE",
                "ZREVRANGE",
            ),
            (
                "kernel/configure",
                "kernel/differing",
                "kernel/present",
                "kernel/import_progress",
                "kernel/list_",
                "observe/",
            ),
        ),
        Discipline(
            "reliable",
            "ReliableQueue",
            ("BLMOVE", "GET", "ZRANGE", "ZREVRANGE"),
            ("kernel/configure", "kernel/differing", "kernel/present", "kernel/list_"),
            "reliable:",
        ),
        Discipline("rotation", "RotationQueue", ("BLPOP",), keys="rotation:", bare=True),
        Discipline(
            "streams",
            "StreamQueue",
            ("XADD", "XACK", "XREADGROUP", "XCLAIM", "XPENDING", "XGROUP|CREATE"),
            ("kernel/page_of_",),
        ),
        Discipline(
            "jobs",
            "JobQueue",
            ("BLPOP", "GET", "HGET", "LRANGE", "XRANGE", "XREAD", "XREADGROUP", "XREVRANGE", "ZREVRANGE"),
            ("kernel/", "observe/history_"),
        ),
    )
}
"""All disciplines by name. Any other list of disciplines is derived from this one, or a test compares the two."""
DEFAULT = "leased"
LARGE = 4000
"""The largest number of messages in a lease of a discipline without large leases."""


class Capabilities(NamedTuple):
    """The features of a discipline.

    fenced: a holder whose lease is expired cannot settle anything. extend: a holder can extend its lease. takeover: a
    lease id that the caller chose can be claimed again, or adopted. delay: publish and nack take a delay. dedup:
    publish takes a deduplication key. dead_letters: messages that fail too often become dead letters. auto_reclaim: a
    claim reclaims expired messages, so no reaper is needed. partial_settle: messages of a lease can be settled one by
    one. batch: a lease may hold several messages. large_leases: a lease may hold more than 4,000. headers: messages
    carry headers. groups: messages can wait in groups, with priorities, be claimed by group, belong to publications and
    expire. payload: `any` is str, bytes, dict or list; `json` is dict or list; `dict` is dict alone; `id` is an id, a
    str. order: in which order ready messages are claimed.
    """

    fenced: bool = False
    extend: bool = False
    takeover: bool = False
    delay: bool = False
    dedup: bool = False
    dead_letters: bool = False
    auto_reclaim: bool = False
    partial_settle: bool = False
    batch: bool = False
    large_leases: bool = False
    headers: bool = False
    groups: bool = False
    payload: Literal["any", "json", "dict", "id"] = "any"
    order: Literal["fifo", "rotation"] = "fifo"


@runtime_checkable
class WorkQueue(Protocol):
    """A queue of any discipline, blocking. The arguments have the same meaning as in `LeasedQueue`."""

    name: str
    discipline: str
    capabilities: Capabilities

    @property
    def admin(self) -> Any:
        """What operators do, which depends on the discipline; all have `peek` and `purge`."""

    def publish(
        self,
        payload: Publishable,
        *,
        dedup_key: str | None = None,
        delay: timedelta | float | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        priority: int | None = None,
        publication: str | None = None,
        expires: timedelta | float | datetime | None = None,
    ) -> Published:
        """Add a message."""

    def publish_many(
        self,
        payloads: Iterable[Publishable],
        *,
        dedup_key: Callable[[Any], str] | None = None,
        delay: timedelta | float | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        priority: int | None = None,
        publication: str | None = None,
        expires: timedelta | float | datetime | None = None,
    ) -> PublishReport:
        """Add messages; `dedup_key` returns the key of each payload."""

    def claim(
        self,
        *,
        max_messages: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        lease_id: str | None = None,
        owner: str | None = None,
        groups: Collection[str] | None = None,
    ) -> Lease | None:
        """Claim messages; return None when there are none within `wait` seconds."""

    def messages(self, lease: Lease) -> Iterator[Message]:
        """Return an iterator over the unsettled messages of a lease, in order."""

    def extend(self, lease: Lease, by: timedelta | float | None = None) -> datetime | None:
        """Extend a lease; return the new deadline. Raises LeaseLost."""

    def ack(self, lease: Lease, messages: Sequence[Message | MessageRef] | None = None) -> SettleReport:
        """Finish all messages of a lease, or some. Raises LeaseLost if `messages` is None and the lease is gone."""

    def nack(
        self,
        lease: Lease,
        messages: Sequence[Message | MessageRef] | None = None,
        *,
        delay: timedelta | float | None = None,
        reason: str | None = None,
    ) -> SettleReport:
        """Requeue messages as failed, or make them dead letters.

        Raises LeaseLost if `messages` is None and the lease is gone.
        """

    def release(self, lease: Lease, messages: Sequence[Message | MessageRef] | None = None) -> SettleReport:
        """Requeue messages without counting a delivery.

        Raises LeaseLost if `messages` is None and the lease is gone.
        """

    def process(
        self,
        *,
        max_messages: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        lease_id: str | None = None,
        owner: str | None = None,
        groups: Collection[str] | None = None,
    ) -> AbstractContextManager[Batch]:
        """Claim messages for a `with` block; ack them when it ends, nack them when it raises."""

    def run(
        self,
        handler: Callable[[Any], object],
        *,
        max_messages: int | None = None,
        concurrency: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        until_empty: bool = False,
        retry_after: timedelta | float | None = None,
        owner: str | None = None,
        stop: Stop | None = None,
        groups: Collection[str] | None = None,
    ) -> RunReport:
        """Claim messages for a handler until stopped; ack them when it returns, nack them when it raises."""

    def backlog(self) -> Backlog:
        """Return how many messages are ready and how old the oldest is; claim nothing."""

    def stats(self) -> QueueStats:
        """Return what the queue holds."""

    def close(self) -> None:
        """Release the messages of claims that got no reply, and close the connections of the queue object."""


@runtime_checkable
class AsyncWorkQueue(Protocol):
    """The asyncio version of WorkQueue."""

    name: str
    discipline: str
    capabilities: Capabilities

    @property
    def admin(self) -> Any:
        """As WorkQueue.admin."""

    async def publish(
        self,
        payload: Publishable,
        *,
        dedup_key: str | None = None,
        delay: timedelta | float | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        priority: int | None = None,
        publication: str | None = None,
        expires: timedelta | float | datetime | None = None,
    ) -> Published:
        """As WorkQueue.publish."""

    async def publish_many(
        self,
        payloads: Iterable[Publishable],
        *,
        dedup_key: Callable[[Any], str] | None = None,
        delay: timedelta | float | None = None,
        headers: Mapping[str, str] | None = None,
        group: str | None = None,
        priority: int | None = None,
        publication: str | None = None,
        expires: timedelta | float | datetime | None = None,
    ) -> PublishReport:
        """As WorkQueue.publish_many."""

    async def claim(
        self,
        *,
        max_messages: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        lease_id: str | None = None,
        owner: str | None = None,
        groups: Collection[str] | None = None,
    ) -> Lease | None:
        """As WorkQueue.claim."""

    def messages(self, lease: Lease) -> AsyncIterator[Message]:
        """As WorkQueue.messages."""

    async def extend(self, lease: Lease, by: timedelta | float | None = None) -> datetime | None:
        """As WorkQueue.extend."""

    async def ack(self, lease: Lease, messages: Sequence[Message | MessageRef] | None = None) -> SettleReport:
        """As WorkQueue.ack."""

    async def nack(
        self,
        lease: Lease,
        messages: Sequence[Message | MessageRef] | None = None,
        *,
        delay: timedelta | float | None = None,
        reason: str | None = None,
    ) -> SettleReport:
        """As WorkQueue.nack."""

    async def release(self, lease: Lease, messages: Sequence[Message | MessageRef] | None = None) -> SettleReport:
        """As WorkQueue.release."""

    def process(
        self,
        *,
        max_messages: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        lease_id: str | None = None,
        owner: str | None = None,
        groups: Collection[str] | None = None,
    ) -> AbstractAsyncContextManager[AsyncBatch]:
        """As WorkQueue.process."""

    async def run(
        self,
        handler: Callable[[Any], Awaitable[object]],
        *,
        max_messages: int | None = None,
        concurrency: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        until_empty: bool = False,
        retry_after: timedelta | float | None = None,
        owner: str | None = None,
        stop: Stop | None = None,
        groups: Collection[str] | None = None,
    ) -> RunReport:
        """As WorkQueue.run."""

    async def backlog(self) -> Backlog:
        """As WorkQueue.backlog."""

    async def stats(self) -> QueueStats:
        """As WorkQueue.stats."""

    async def close(self) -> None:
        """As WorkQueue.close."""


def open_queue(redis: Any, name: str, discipline: str = DEFAULT, config: Any = None) -> WorkQueue:
    """Open a queue of a discipline. `redis` is a client, RedisSettings or a URL; `config` is that discipline's config.

    Raises ConfigurationError for an unknown discipline.
    """
    queue: WorkQueue = _known(discipline).load()(redis, name, config)
    return queue


def open_async_queue(redis: Any, name: str, discipline: str = DEFAULT, config: Any = None) -> AsyncWorkQueue:
    """Open a queue for asyncio; `rmq_core.asyncio` exports this function as `open_queue`."""
    queue: AsyncWorkQueue = _known(discipline).load(blocking=False)(redis, name, config)
    return queue


def require(queue: WorkQueue | AsyncWorkQueue, component: str, *capabilities: str) -> None:
    """Raise Unsupported when a queue lacks a capability that a component needs.

    The error names the component, the capability, and the disciplines that have it.
    """
    for capability in capabilities:
        if not getattr(queue.capabilities, capability):
            raise Unsupported(queue.discipline, f"{capability} (needed by {component})", able(capability))


def lacking(discipline: str, capability: str, what: str | None = None) -> Unsupported:
    """Return the error for a capability that a discipline lacks; it names the disciplines that have it."""
    return Unsupported(discipline, what or capability, able(capability))


def able(capability: str) -> tuple[str, ...]:
    """Return the disciplines that have a capability."""
    return tuple(name for name, each in DISCIPLINES.items() if getattr(each.load().capabilities, capability))


def _known(discipline: str) -> Discipline:
    if discipline not in DISCIPLINES:
        raise ConfigurationError(f"discipline must be one of {', '.join(DISCIPLINES)}, not {discipline!r}")
    return DISCIPLINES[discipline]
