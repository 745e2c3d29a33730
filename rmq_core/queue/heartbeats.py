"""Heartbeats: one thread per server extends every lease in use, so that a server that hangs delays no other server.

The thread marks a lease as lost when Redis reports it lost, or when the deadline passes without a reply. It starts
with the first lease, ends some seconds after the last one, and starts again after a fork.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import inf
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from rmq_core.errors import RedisMessageQueueError
from rmq_core.messages import Lease

_log = logging.getLogger("rmq")
_IDLE_S = 10.0
Q = TypeVar("Q")


class Extender(Protocol):
    """The part of a queue that a heartbeat uses; `server` is the same for all queues of one server."""

    @property
    def server(self) -> Hashable: ...

    def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool]:
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
                self._beat(queue, [heartbeat for heartbeat in due if heartbeat.queue is queue])

    def _due(self, now: float) -> list[Heartbeat[Extender]] | None:
        """Sleep until a heartbeat is due and return those that are due; None if there were none for a while."""
        due = [heartbeat for heartbeat in self._heartbeats if heartbeat.next_at <= now]
        if due:
            return due
        self._sleeps_until = min([now + _IDLE_S, *(heartbeat.next_at for heartbeat in self._heartbeats)])
        woken = self._changed.wait(self._sleeps_until - now)
        return [] if woken or self._heartbeats else None

    def _beat(self, queue: Extender, due: list[Heartbeat[Extender]]) -> None:
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
            settle_beat(heartbeat, alive, sent)
        except BaseException:  # sys.exit() in a callback would only kill this thread
            _log.exception("on_lost raised for lease %r", heartbeat.lease.id)
        if heartbeat.over:
            self.remove(heartbeat)


def settle_beat(heartbeat: Heartbeat[Q], alive: bool | None, sent: float) -> None:
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
