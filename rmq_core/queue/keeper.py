"""Heartbeats: one thread a server extends every lease that is being worked on, so that one which hangs delays no other.

A lease that cannot be extended is flagged to its handler: at once when Redis says it is lost, and when its deadline
passes without an answer. A thread starts with the first lease, ends with the last, and starts anew after a fork.
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
    """What the keeper needs of a queue; `server` is the same for queues of one server."""

    @property
    def server(self) -> Hashable: ...

    def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool]:
        """Extend leases in one write; False for each that is lost."""
        ...  # pragma: no cover


@dataclass(eq=False, slots=True)
class Charge(Generic[Q]):
    """A lease to be kept: by which queue, for how long at a time, and by when it must have been extended."""

    queue: Q
    lease: Lease
    lease_s: float
    on_lost: Callable[[Lease], object] | None = None
    fresh: bool = False
    """Claimed just now and for that long; any other lease is extended at once, for its deadline may be near."""
    ended: bool = field(default=False, init=False)
    next_at: float = field(init=False)
    lost_at: float = field(init=False)
    settles: int = field(default=0, init=False)
    """How many settlements of the lease had begun when its last heartbeat was made."""

    def __post_init__(self) -> None:
        now = time.monotonic()
        self.renewed(now)
        if not self.fresh:
            self.next_at = now

    @property
    def over(self) -> bool:
        return self.lease.fate.lost or self.lease.fate.settled

    @property
    def overtaken(self) -> bool:
        """Whether the lease was being settled while its heartbeat was under way: nobody holds it then, and rightly."""
        fate = self.lease.fate
        return not self.settles == fate.begun == fate.ended

    def asked(self) -> tuple[Lease, float]:
        """What a heartbeat is made of."""
        self.settles = self.lease.fate.begun
        return self.lease, self.lease_s

    def renewed(self, now: float) -> None:
        self.next_at, self.lost_at = now + self.lease_s / 3, now + self.lease_s
        self.lease.fate.until = inf if self.ended else self.lost_at

    def end(self) -> None:
        """Nobody looks after the lease from now on, so nothing is known of its deadline."""
        self.ended = True
        self.lease.fate.until = inf

    def retry(self, now: float) -> None:
        self.next_at = min(now + min(1.0, self.lease_s / 10), self.lost_at)

    def lose(self) -> None:
        if self.lease.fate.settled:
            return
        self.lease.fate.lost = True
        if self.on_lost is not None:
            try:
                self.on_lost(self.lease)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # noqa: BLE001  a callback, cancelled or not, must not stop the heartbeat of others
                _log.exception("on_lost raised for lease %r", self.lease.id)


class Keepers:
    """The keepers of this process, one a server; a keeper is forgotten with its thread."""

    def __init__(self) -> None:
        self._one_by_one = threading.Lock()
        self._of: WeakValueDictionary[Hashable, Keeper] = WeakValueDictionary()

    def of(self, queue: Extender) -> Keeper:
        """The keeper of the leases of a queue."""
        server = queue.server
        found = self._of.get(server)
        if found is None:
            with self._one_by_one:
                found = self._of.setdefault(server, Keeper())
        return found

    def add(self, charge: Charge[Extender]) -> None:
        self.of(charge.queue).add(charge)

    def remove(self, charge: Charge[Extender]) -> None:
        """Look after it no longer."""
        self.of(charge.queue).remove(charge)

    def reset(self) -> None:
        """In a forked child: its parent's leases are its parent's."""
        self.__init__()  # type: ignore[misc]


class Keeper:
    """The charges of a server and the thread that looks after them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._charges: set[Charge[Extender]] = set()
        self._thread: threading.Thread | None = None
        self._sleeps_until = 0.0

    def add(self, charge: Charge[Extender]) -> None:
        with self._changed:
            self._charges.add(charge)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="rmq-heartbeat", daemon=True)
                self._thread.start()
            elif charge.next_at < self._sleeps_until:
                self._changed.notify()

    def remove(self, charge: Charge[Extender]) -> None:
        """Look after it no longer; the thread finds out when it wakes."""
        with self._changed:
            self._charges.discard(charge)

    def _run(self) -> None:
        while True:
            with self._changed:
                due = self._due(time.monotonic())
                if due is None:
                    self._thread = None
                    return
            for queue in {charge.queue for charge in due}:
                self._beat(queue, [charge for charge in due if charge.queue is queue])

    def _due(self, now: float) -> list[Charge[Extender]] | None:
        """What must be extended now, after sleeping until there may be something; None when idle for long."""
        due = [charge for charge in self._charges if charge.next_at <= now]
        if due:
            return due
        self._sleeps_until = min([now + _IDLE_S, *(charge.next_at for charge in self._charges)])
        woken = self._changed.wait(self._sleeps_until - now)
        return [] if woken or self._charges else None

    def _beat(self, queue: Extender, due: list[Charge[Extender]]) -> None:
        sent, kept = time.monotonic(), []
        try:
            kept = list(queue.extend_all([charge.asked() for charge in due]))
        except RedisMessageQueueError as error:
            _log.warning("heartbeat of %d leases failed: %s", len(due), error)
        except BaseException:  # noqa: BLE001  whatever it is, the other queues' leases need their heartbeat
            _log.exception("heartbeat of %d leases failed", len(due))
        for charge, alive in zip_longest(due, kept):
            self._settle_beat(charge, alive, sent)

    def _settle_beat(self, charge: Charge[Extender], alive: bool | None, sent: float) -> None:  # noqa: FBT001  a reply
        try:
            settle_beat(charge, alive, sent)
        except BaseException:  # noqa: BLE001  sys.exit() ends no program from here, only the heartbeat of others
            _log.exception("on_lost raised for lease %r", charge.lease.id)
        if charge.over:
            self.remove(charge)


def settle_beat(charge: Charge[Q], alive: bool | None, sent: float) -> None:  # noqa: FBT001  a reply, not a switch
    """Note the result of an extension sent at that time: True extended, False lost, None not known."""
    lost = charge.lease.fate.lost or (alive is False and not charge.overtaken)
    if alive and not lost:
        charge.renewed(sent)
    elif lost or time.monotonic() >= charge.lost_at:
        charge.lose()
    else:
        charge.retry(time.monotonic())


keeper = Keepers()
os.register_at_fork(after_in_child=keeper.reset)
