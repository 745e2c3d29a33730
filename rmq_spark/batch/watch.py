"""End a driver whose work is no longer valid: its lease is lost, or the process that started it has ended.

Spark's actions block the driver's main thread, so separate threads watch for both. Work that continues without its
lease is not only wasted: its writes collide with those of the next holder.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

from rmq_core import Lease, LeaseLost, RedisMessageQueueError
from rmq_spark.batch.held import HeldBatch

log = logging.getLogger(__name__)

EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: try again
LOOK_S = 1.0
MARGIN, MOST_MARGIN_S = 0.1, 5.0  # of the lease: without heartbeat reply, give up this long before its end
GRACE_S = 3.0  # for the main thread to end by itself; plus two polls it stays within the promised five seconds


class LossWatch:
    """Poll every second whether this driver still holds its lease; once it is lost, call `on_lost` at every poll.

    A takeover is detected only at the next heartbeat, which for a lease of minutes is a minute away. A poll and a
    heartbeat can hang while Redis is unreachable. So a second thread, which never calls Redis, acts on the loss shortly
    before the deadline that the last heartbeat set.
    """

    def __init__(self, held: HeldBatch, on_lost: Callable[[], object], *, exit_driver: bool) -> None:
        self._held = held
        self._on_lost = on_lost
        self._exit_driver = exit_driver
        self._lost: Lease | None = None
        self._closed = threading.Event()
        name = f"rmq-watch-{held.lease.id}"
        self._threads = [threading.Thread(target=work, name=name, daemon=True) for work in (self._watch, self._guard)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop polling. Wait for a poll under way, because it would mistake our own ack for a loss.

        After a loss there is no ack, so a poll that still waits for Redis is not awaited.
        """
        self._closed.set()
        for thread in self._threads if not self.lost else ():
            thread.join()

    @property
    def lost(self) -> bool:
        """Return whether a loss is known, without a call to Redis."""
        return self._lost is not None

    def gone(self) -> Lease | None:
        """Poll now; return the lost lease, or None while it is held."""
        return self._lost or (self._held.lease if _is_gone(self._held) else None)

    def check(self) -> None:
        """Poll now, and raise LeaseLost when the lease is lost."""
        if lost := self.gone():
            raise LeaseLost(lost.id)

    def lose(self, lease: Lease) -> None:
        """Act on the loss; any thread may call this, any number of times."""
        if self._lost is None:
            self._lost = lease
            if self._exit_driver:
                exit_soon(f"lease {lease.id!r} is lost")
        try:
            self._on_lost()
        except Exception:  # Spark itself may be stopping; the next poll tries again
            log.exception("the jobs of lease %r could not be cancelled", lease.id)

    def _watch(self) -> None:
        while not self._closed.is_set():
            if lost := self.gone():
                self.lose(lost)
            self._closed.wait(LOOK_S)

    def _guard(self) -> None:
        lease, longest_s = self._held.lease, 0.0
        while not self._closed.is_set():
            left_s = lease.state.until - time.monotonic()
            if left_s < inf:
                longest_s = max(longest_s, left_s)  # just after a heartbeat: the lease itself
                left_s -= margin_s(longest_s)
            if left_s <= 0:
                self.lose(lease)
            self._closed.wait(min(left_s, LOOK_S) if left_s > 0 else LOOK_S)


def _is_gone(held: HeldBatch) -> bool:
    try:
        info = held.queue.lease_info(held.lease.id)
    except RedisMessageQueueError:  # an unreachable Redis is not a loss
        return False
    return info is None or info.fence != int(str(held.lease.token).partition(".")[0])


def margin_s(lease_s: float) -> float:
    """Return how long before a lease's deadline its jobs are cancelled, unless a heartbeat extends the lease."""
    return min(MARGIN * lease_s, MOST_MARGIN_S)


def exit_soon(why: str) -> None:
    """End this process within GRACE_S, whatever its threads do; no exception reaches a thread in a Spark action."""
    log.error("%s: this driver ends now", why)
    timer = threading.Timer(GRACE_S, os._exit, (EXIT_CODE,))
    timer.daemon = True
    timer.start()


def exit_with_parent() -> None:
    """From now on, end this process within two seconds when a process that started it has ended.

    Under spark-submit these are Spark's Java process, which is the parent, and the submitter that started it: killing
    the submitter leaves the Java process running.
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
    """Return the parent of any process, or 0 when that process is gone."""
    try:
        # The command name is in parentheses and may contain any character, including parentheses.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # no such process, or no Linux
        asked = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return int(asked.stdout.strip() or 0)
