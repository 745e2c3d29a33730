"""The blocking queue: operations as methods, run by the blocking driver, and heartbeats.

One thread per server extends every lease in use, so that a server that hangs delays no other server. It marks a lease
as lost when Redis reports it lost, or when the deadline passes without a reply. It starts with the first lease, ends
some seconds after the last one, and starts again after a fork.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import zip_longest
from math import inf
from time import monotonic
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar
from weakref import WeakSet, WeakValueDictionary

from rmq_core.admin.history import flush, one_attempt
from rmq_core.batch import Batch
from rmq_core.connection.clients import closed, server_of, sync_client
from rmq_core.envelope.codec import Message, P
from rmq_core.errors import RedisMessageQueueError
from rmq_core.exchange import Patience
from rmq_core.interrupt_handler import Stop
from rmq_core.kernel.base import E, QueueBase
from rmq_core.kernel.settling import open_places
from rmq_core.messages import Lease, token_of
from rmq_core.policy import seconds
from rmq_core.reports import RunReport
from rmq_core.running import BlockingRun, Process, RunOptions, failure_logged, reason_of
from rmq_core.twin import Blocking, Twin, awaited

_log = logging.getLogger("rmq")
_IDLE_S = 10.0
Q = TypeVar("Q")


class Extender(Protocol):
    """The part of a queue that a heartbeat uses; `server` is the same for all queues of one server."""

    @property
    def server(self) -> Hashable: ...

    def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool | None]:
        """Extend leases in one write; return False for each that is lost."""
        ...  # pragma: no cover


@dataclass(eq=False, slots=True)
class Heartbeat(Generic[Q]):
    """A lease that is extended in the background.

    queue: the queue that extends it. lease_s: the length of each extension. lost_at: when the lease counts as lost
    unless it has been extended before.
    """

    queue: Q
    lease: Lease
    lease_s: float
    on_lost: Callable[[Lease], object] | None = None
    fresh: bool = False
    """True for a lease that was claimed just now. Any other is extended at once, because its deadline may be near."""
    ended: bool = field(default=False, init=False)
    next_at: float = field(init=False)
    lost_at: float = field(init=False)
    settles: int = field(default=0, init=False)
    """How many settlements of the lease had begun when the last extension was sent."""

    def __post_init__(self) -> None:
        now = time.monotonic()
        self.renewed(now)
        if not self.fresh:
            self.next_at = now

    @property
    def over(self) -> bool:
        return self.lease.state.lost or self.lease.state.settled

    @property
    def overtaken(self) -> bool:
        """Whether a settlement ran during the extension; if so, the lease may be gone because it was settled."""
        state = self.lease.state
        return not self.settles == state.begun == state.ended

    def asked(self) -> tuple[Lease, float]:
        """Return the arguments of the next extension."""
        self.settles = self.lease.state.begun
        return self.lease, self.lease_s

    def renewed(self, now: float) -> None:
        self.next_at, self.lost_at = now + self.lease_s / 3, now + self.lease_s
        self.lease.state.until = inf if self.ended else self.lost_at

    def end(self) -> None:
        """Stop: from now on the deadline of the lease is unknown."""
        self.ended = True
        self.lease.state.until = inf

    def retry(self, now: float) -> None:
        self.next_at = min(now + min(1.0, self.lease_s / 10), self.lost_at)

    def lose(self) -> None:
        if self.lease.state.settled:
            return
        self.lease.state.lost = True
        if self.on_lost is not None:
            try:
                self.on_lost(self.lease)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # a failing callback must not stop other leases' heartbeats
                _log.exception("on_lost raised for lease %r", self.lease.id)


class HeartbeatThreads:
    """The heartbeat threads of this process, one per server."""

    def __init__(self) -> None:
        self._one_by_one = threading.Lock()
        self._of: WeakValueDictionary[Hashable, HeartbeatThread] = WeakValueDictionary()

    def of(self, queue: Extender) -> HeartbeatThread:
        """Return the thread for the server of a queue."""
        server = queue.server
        found = self._of.get(server)
        if found is None:
            with self._one_by_one:
                found = self._of.setdefault(server, HeartbeatThread())
        return found

    def add(self, heartbeat: Heartbeat[Extender]) -> None:
        self.of(heartbeat.queue).add(heartbeat)

    def remove(self, heartbeat: Heartbeat[Extender]) -> None:
        """Stop extending the lease."""
        self.of(heartbeat.queue).remove(heartbeat)

    def reset(self) -> None:
        """Forget the parent's leases in a forked child, to which no heartbeat of the parent reports their deadlines."""
        for thread in list(self._of.values()):
            thread.end_all()
        self.__init__()  # type: ignore[misc]


class HeartbeatThread:
    """The heartbeats of one server and the thread that sends them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._heartbeats: set[Heartbeat[Extender]] = set()
        self._thread: threading.Thread | None = None
        self._sleeps_until = 0.0

    def add(self, heartbeat: Heartbeat[Extender]) -> None:
        with self._changed:
            self._heartbeats.add(heartbeat)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="rmq-heartbeat", daemon=True)
                self._thread.start()
            elif heartbeat.next_at < self._sleeps_until:
                self._changed.notify()

    def remove(self, heartbeat: Heartbeat[Extender]) -> None:
        """Stop extending the lease; the thread notices when it wakes."""
        with self._changed:
            self._heartbeats.discard(heartbeat)

    def end_all(self) -> None:
        """Stop without a lock, in a forked child: a thread of the parent may have held it during the fork."""
        for heartbeat in self._heartbeats:
            heartbeat.end()

    def _run(self) -> None:
        while True:
            with self._changed:
                due = self._due(time.monotonic())
                if due is None:
                    self._thread = None
                    return
            for queue in {heartbeat.queue for heartbeat in due}:
                self._send(queue, [heartbeat for heartbeat in due if heartbeat.queue is queue])

    def _due(self, now: float) -> list[Heartbeat[Extender]] | None:
        """Sleep until a heartbeat is due and return those that are due; None if there were none for a while."""
        due = [heartbeat for heartbeat in self._heartbeats if heartbeat.next_at <= now]
        if due:
            return due
        self._sleeps_until = min([now + _IDLE_S, *(heartbeat.next_at for heartbeat in self._heartbeats)])
        woken = self._changed.wait(self._sleeps_until - now)
        return [] if woken or self._heartbeats else None

    def _send(self, queue: Extender, due: list[Heartbeat[Extender]]) -> None:
        sent, kept = time.monotonic(), []
        try:
            kept = list(queue.extend_all([heartbeat.asked() for heartbeat in due]))
        except RedisMessageQueueError as error:
            _log.warning("heartbeat of %d leases failed: %s", len(due), error)
        except BaseException:  # other queues' leases still need their heartbeat
            _log.exception("heartbeat of %d leases failed", len(due))
        for heartbeat, alive in zip_longest(due, kept):
            self._settle_beat(heartbeat, alive, sent)

    def _settle_beat(self, heartbeat: Heartbeat[Extender], alive: bool | None, sent: float) -> None:
        try:
            settle_heartbeat(heartbeat, alive, sent)
        except BaseException:  # sys.exit() in a callback would only kill this thread
            _log.exception("on_lost raised for lease %r", heartbeat.lease.id)
        if heartbeat.over:
            self.remove(heartbeat)


def settle_heartbeat(heartbeat: Heartbeat[Q], alive: bool | None, sent: float) -> None:
    """Apply the result of an extend call sent at `sent`: True extended, False lost, None unknown."""
    lost = heartbeat.lease.state.lost or (alive is False and not heartbeat.overtaken)
    if alive and not lost:
        heartbeat.renewed(sent)
    elif lost or time.monotonic() >= heartbeat.lost_at:
        heartbeat.lose()
    else:
        heartbeat.retry(time.monotonic())


heartbeats = HeartbeatThreads()
os.register_at_fork(after_in_child=heartbeats.reset)


_open: WeakSet[Facade[Any, Any]] = WeakSet()
_AT_EXIT_S = 1.0


@atexit.register
def _send_all_counts() -> None:
    """Flush the counts of the queues that the program did not close. It takes at most a second."""
    until = monotonic() + _AT_EXIT_S
    for queue in list(_open):
        if monotonic() < until:
            with suppress(Exception):
                queue._send_counts()  # noqa: SLF001  the same module


class Connected(QueueBase[E]):
    """What a blocking and an asyncio queue have in common: they share a driver with their heartbeats, and close it."""

    client: Any
    _owned: bool

    @Twin
    async def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool | None]:
        """Extend many leases in one write, each by its own seconds; return False for each that is lost. One attempt.

        None for one in a shard that does not answer.
        """
        try:
            extended: list[bool | None] = await awaited(
                self._driver.run(self._extend_all(self._engine, leases), Patience(0))
            )
        finally:
            if self._tally is not None and self._tally.noted:
                await awaited(self._send_counts())
            if self._closed:  # `close` ran meanwhile and could not close the connection in use here
                await self._close_clients()
        return extended

    @Twin
    async def close(self) -> None:
        """Release claims whose reply never arrived, and return the connections to the pool."""
        self._closed = True
        try:
            await awaited(self._driver.run(self._leave(self._engine)))
            await awaited(self._send_counts())
        finally:
            await self._close_clients()

    @Twin
    async def _send_counts(self) -> None:
        """Flush the counts to the history."""
        if self._tally is not None and self._driver.connected:
            await awaited(self._driver.run(flush(self._recorder), one_attempt()))

    async def _close_clients(self) -> None:
        await awaited(self._driver.close())
        if self._owned:
            await closed(self.client)


class Facade(Connected[E], Blocking, Generic[E, P]):
    """A queue over a redis-py client, RedisSettings or a URL; it closes only a client it made itself.

    A queue class combines a list of operations with this class; the list must hold `claim`, `ack` and `nack`.
    """

    def _connect(self, redis: Any) -> None:
        from rmq_core.exchange.public import sync_driver  # loads redis-py, which an import must not do

        engine = self._engine
        self.client, self._owned = sync_client(redis)
        self.server = server_of(self.client)
        self._driver = sync_driver(self.client, engine.prefix, engine.retry_budget_s)
        _open.add(self)

    def hold(
        self, lease: Lease, by: timedelta | float | None = None, on_lost: Callable[[Lease], object] | None = None
    ) -> AbstractContextManager[Lease]:
        """Let the heartbeat thread extend a lease while the block runs; it calls `on_lost(lease)` if the lease is lost.

        by: the length of each extension, in seconds or as a timedelta; None for the queue's lease.
        """
        return self._hold(lease, by, on_lost)

    @contextmanager
    def _hold(
        self,
        lease: Lease,
        by: timedelta | float | None,
        on_lost: Callable[[Lease], object] | None = None,
        *,
        fresh: bool = False,
    ) -> Iterator[Lease]:
        token_of(lease)  # raises for a lease without a token, which would stop the heartbeat of the other leases
        lease_s = self._engine.heartbeat_s if by is None else by
        if lease_s is None:
            yield lease
            return
        heartbeat: Heartbeat[Extender] = Heartbeat(self, lease, seconds("by", lease_s, minimum=0.001), on_lost, fresh)
        heartbeats.add(heartbeat)
        try:
            yield lease
        finally:
            heartbeats.remove(heartbeat)
            heartbeat.end()

    def process(
        self,
        *,
        max_messages: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        lease_id: str | None = None,
        owner: str | None = None,
        groups: Collection[str] | None = None,
    ) -> Process[P]:
        """Claim, keep the lease alive while the block runs, ack when it ends, nack when it raises.

        Yields a Batch, which is empty, and false, when there is no work. An exception propagates after the nack;
        KeyboardInterrupt, SystemExit and GeneratorExit leave the lease alone; its messages are redelivered when it
        expires. Messages settled in the block stay settled; the end of the block settles the rest, or raises LeaseLost
        if `batch.lease.lost` was true before. Takes the arguments of `claim`. Also decorates a function that takes a
        Batch; it is not called when there is no work.
        """
        claim = functools.partial(
            self._verbs.claim, max_messages=max_messages, lease=lease, wait=wait, lease_id=lease_id, owner=owner,
            groups=groups,
        )  # fmt: skip
        return Process(functools.partial(self._process, claim, lease))

    @contextmanager
    def _process(self, claim: Callable[[], Lease | None], by: timedelta | float | None) -> Iterator[Batch[P]]:
        held = claim()
        batch: Batch[P] = Batch(self._verbs, held)
        if held is None:
            yield batch
            return
        with self._hold(held, by, fresh=True):
            try:
                yield batch
            except Exception as error:
                with failure_logged(held):
                    batch.give_up(reason_of(error))
                raise
            batch.finish()

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
        alive: str | os.PathLike[str] | None = None,
    ) -> RunReport:
        """Claim and pass messages to `handler` until stopped; ack what it returns for, nack what it raises for.

        handler: a plain function. It gets one message; with `max_messages`, a batch of at most that many, whose
        messages it may settle one by one. An error is logged and is the reason of the nack; the queue's backoff
        applies, or `retry_after` (seconds or timedelta) replaces it. concurrency: how many threads work at once; one
        works in the calling thread. until_empty: return when no message was ready for `wait` (seconds or timedelta).
        lease, owner, groups: as for `claim`. alive: a file whose time is set before each claim, every second while no
        message is ready, for a probe that restarts a worker that hangs.

        SIGINT and SIGTERM let the handlers finish, then `run` returns; a second signal releases their messages and
        raises KeyboardInterrupt. They are handled in the main thread only, and not if `stop`, such as a
        threading.Event, is passed: then the run stops once it is set. A lost lease, or a Redis that is away, is logged,
        and the run goes on; with `until_empty`, QueueUnavailable is raised. Raises ConfigurationError, Unsupported.
        """
        options = RunOptions(
            max_messages=max_messages, concurrency=concurrency, lease=lease, wait=wait, until_empty=until_empty,
            retry_after=retry_after, owner=owner, stop=stop, groups=groups, alive=alive,
        )  # fmt: skip
        return BlockingRun(self, self._hold, handler, options).run()

    def _counted(self, result: Any, driver: Any = None) -> Any:
        tally = self._tally
        if tally is not None and tally.noted and monotonic() >= tally.next_at:
            (driver or self._driver).run(flush(self._recorder, result), one_attempt())
        return result

    def messages(self, lease: Lease) -> Iterator[Message[P]]:
        """Return an iterator over the messages of a lease that are not settled yet, in order."""
        found = lease.messages
        return (found[place] for place in open_places(lease))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LargeLeaseFacade(Facade[E, P]):
    """A queue whose leases may be too large for one reply; `read` must be among its operations."""

    def messages(self, lease: Lease, slice_size: int = 1000) -> Iterator[Message[P]]:
        """Return an iterator over the unsettled messages, in order; it reads slices as needed. Raises LeaseLost."""
        if lease.complete and not lease.state.partly:
            return iter(lease.messages)
        return self._read(lease, slice_size)

    def _read(self, lease: Lease, slice_size: int) -> Iterator[Message[P]]:
        for lo in range(0, lease.count, slice_size):
            yield from self._verbs.read(lease, lo, lo + slice_size)
