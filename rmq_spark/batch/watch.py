"""What ends a driver that nobody needs any more: the loss of its lease, or the death of who started it.

Spark's actions block the driver's main thread, so both are watched from threads of their own. Work that goes on
without its lease is not only wasted: its writes collide with those of the next holder.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

from rmq_core import Lease, LeaseLost, RedisMessageQueueError
from rmq_spark.batch.held import HeldLease

log = logging.getLogger(__name__)

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: try again
LOOK_S = 1.0
MARGIN, MOST_MARGIN_S = 0.1, 5.0  # of the lease: how long before its end we give up when the heartbeat gets no answer
GRACE_S = 3.0  # for the main thread to end on its own; with two looks less than the five seconds we promise


class LossWatch:
    """Looks every second whether leases are still ours. When one is not, calls `on_lost` at every look from then on.

    The heartbeat finds a takeover only at its next beat, which for a lease of minutes is a minute away. A look, and a
    beat, can hang while Redis is out of sight; so a second thread, which never asks Redis, acts on the loss shortly
    before the deadline that the last beat reached.
    """

    def __init__(self, held: Sequence[HeldLease], on_lost: Callable[[], object], *, exit_driver: bool) -> None:
        self._held = held
        self._on_lost = on_lost
        self._exit_driver = exit_driver
        self._lost: Lease | None = None
        self._closed = threading.Event()
        name = f"rmq-watch-{held[0].lease.id}"
        self._threads = [threading.Thread(target=work, name=name, daemon=True) for work in (self._watch, self._guard)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop looking. Waits for a look under way: one that saw our own ack would take it for a loss.

        After a loss there is no ack, and a look that waits for Redis is left to itself.
        """
        self._closed.set()
        for thread in self._threads if not self.lost else ():
            thread.join()

    @property
    def lost(self) -> bool:
        """Whether the loss is known; asks nobody."""
        return self._lost is not None

    def gone(self) -> Lease | None:
        """Look now: a lease that is lost, None when all are ours."""
        return self._lost or next((each.lease for each in self._held if _is_gone(each)), None)

    def check(self) -> None:
        """Look now, and raise LeaseLost when one is lost."""
        if lost := self.gone():
            raise LeaseLost(lost.id)

    def lose(self, lease: Lease) -> None:
        """Act on the loss; may be called again, and by any thread."""
        if self._lost is None:
            self._lost = lease
            if self._exit_driver:
                exit_soon(f"lease {lease.id!r} is lost")
        try:
            self._on_lost()
        except Exception:  # Spark may be going down itself; the next look tries again
            log.exception("the jobs of lease %r could not be cancelled", lease.id)

    def _watch(self) -> None:
        while not self._closed.is_set():
            if lost := self.gone():
                self.lose(lost)
            self._closed.wait(LOOK_S)

    def _guard(self) -> None:
        longest_s = 0.0
        while not self._closed.is_set():
            lease = min((each.lease for each in self._held), key=lambda lease: lease.state.until)
            left_s = lease.state.until - time.monotonic()
            if left_s < inf:
                longest_s = max(longest_s, left_s)  # just after a beat: the lease itself
                left_s -= margin_s(longest_s)
            if left_s <= 0:
                self.lose(lease)
            self._closed.wait(min(left_s, LOOK_S) if left_s > 0 else LOOK_S)


def _is_gone(held: HeldLease) -> bool:
    try:
        info = held.queue.lease_info(held.lease.id)
    except RedisMessageQueueError:  # what we cannot see is not lost
        return False
    return info is None or info.fence != int(str(held.lease.token).partition(".")[0])


def margin_s(lease_s: float) -> float:
    """How long before the deadline of a lease its jobs are cancelled, unless a beat has moved that."""
    return min(MARGIN * lease_s, MOST_MARGIN_S)


def exit_soon(why: str) -> None:
    """End this process within GRACE_S, whatever its threads do: a main thread in a Spark action hears no exception."""
    log.error("%s: this driver ends now", why)
    timer = threading.Timer(GRACE_S, os._exit, (EXIT_CODE,))
    timer.daemon = True
    timer.start()


def exit_with_parent() -> None:
    """From now on, end this process within two seconds when who started it has ended.

    Under spark-submit that is both Spark's Java process, the parent, and the submitter that started it: killing the
    submitter leaves the Java process behind.
    """
    threading.Thread(target=_exit_with, args=(_starters(),), name="rmq-parent", daemon=True).start()


def _exit_with(starters: tuple[int, ...]) -> None:
    while _starters() == starters:
        time.sleep(LOOK_S)
    log.error("the process that started this driver has ended: this driver ends now")
    os._exit(EXIT_CODE)


def _starters() -> tuple[int, ...]:
    parent = os.getppid()
    return (parent, _parent_of(parent)) if "PYSPARK_GATEWAY_PORT" in os.environ else (parent,)


def _parent_of(pid: int) -> int:
    """The parent of any process; 0 when it is gone."""
    try:
        # The name of the command stands in parentheses and may hold anything, parentheses too.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # no such process, or no Linux
        asked = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607
        return int(asked.stdout.strip() or 0)
