"""Poll the leases on one server; release those whose task somebody ended, expire those whose task failed.

Law: every failure is logged once and retried with growing pauses. Every wait is short, and polling takes only a
fraction of the time: a slow server is polled less often.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from airflow.observability.stats import Stats
from airflow.providers.common.compat.sdk import AirflowNotFoundException

from rmq_airflow.location import Location
from rmq_airflow.plugin.endings import Endings
from rmq_airflow.plugin.instances import Standing, standings
from rmq_core import LeaseAlreadySettled, LeasedQueue, LeaseLost, QueueUnavailable, RedisMessageQueueError, disciplines
from rmq_core.reports import LeaseInfo

LISTED = 10_000
RETRY_BUDGET_S = 1.0
SLOWEST_S = 10.0
PART = 4
OURS = (RedisMessageQueueError, AirflowNotFoundException)
log = logging.getLogger(__name__)


class ConnectionWatch:
    """Poll the server of a connection every `interval_s` seconds, in a thread of its own, from `start` on."""

    def __init__(self, connection_id: str, place: Location, interval_s: float) -> None:
        self.place = place
        self._config = replace(place.config, retry_budget=RETRY_BUDGET_S)
        self._id, self._interval_s = connection_id, interval_s
        self._endings = Endings()
        self._client: Any = None
        self._trouble = Trouble(f"The leases on the server of connection {connection_id!r}")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rmq-releases-{connection_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Tell the thread to end after its current poll."""
        self._over.set()

    def join(self, limit_s: float) -> None:
        self._thread.join(limit_s)

    def poll(self, now: float) -> None:
        """Poll once, at the monotonic time `now`. Raises the errors of Redis and of the metadata database."""
        names = [name for name, kind in disciplines(self._redis()).items() if kind == "leased"]
        held = [(name, lease) for name in names for lease in self._leases(name)]
        found = standings({lease.owner for _, lease in held})
        due = self._endings.due(found, now)
        for name, lease in held:
            if lease.owner in due:
                with self._queue(name) as queue:
                    take_back(queue, lease, due[lease.owner])

    def close(self) -> None:
        """Close the connections to the server; the next poll opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _run(self) -> None:
        pause_s = 0.0
        while not self._over.wait(pause_s):
            started = time.monotonic()
            with self._trouble.logged():
                self.poll(started)
            if self._trouble.times:
                self.close()
            pause_s = pace(self._interval_s, time.monotonic() - started, self._trouble.times)
        self.close()

    def _redis(self) -> Any:
        if self._client is None:
            self._client = self.place.settings.client()
        return self._client

    def _queue(self, name: str) -> LeasedQueue:
        # The caller closes it after each use: an open queue keeps a connection, and a client has at most a hundred.
        return LeasedQueue(self._redis(), name, self._config)

    def _leases(self, name: str) -> list[LeaseInfo]:
        try:
            with self._queue(name) as queue:
                return queue.admin.leases(LISTED)
        except QueueUnavailable:
            raise
        except RedisMessageQueueError:  # one damaged queue must not hide the others; the page shows its error
            return []


class Trouble:
    """Log a failure once and its end once; `times` counts the failures in a row."""

    def __init__(self, what: str) -> None:
        self.times = 0
        self._what = what
        self._logged: set[str] = set()

    @contextmanager
    def logged(self) -> Iterator[None]:
        """Run a block; log its exceptions and do not raise them."""
        try:
            yield
        except Exception as error:  # no error ends the loop
            self.times += 1
            self._log(error)
        else:
            if self.times:
                log.info("%s can be read again.", self._what)
            self.times, self._logged = 0, set()

    def _log(self, error: Exception) -> None:
        kind = type(error).__name__
        if kind in self._logged:
            return
        self._logged.add(kind)
        # The error text of a database driver or a secrets backend may contain a password; our own Redis errors never
        # do.
        text = f"{kind}: {error}" if isinstance(error, OURS) else kind
        log.warning("%s cannot be read (%s); trying again.", self._what, text)
        log.debug("In full:", exc_info=error)


def take_back(queue: LeasedQueue, lease: LeaseInfo, ended: Standing) -> None:
    """Release a lease, or expire it if its holder failed, which counts a delivery.

    Does nothing if another API server has done it, or if another holder, such as a retry, has the lease.
    """
    reason = ended.reason or ""
    try:
        if ended.failed:
            report = queue.admin.expire_lease(lease.id, if_owner=lease.owner, reason=reason)
        else:
            report = queue.admin.release_lease(lease.id, if_owner=lease.owner)
    except (LeaseLost, LeaseAlreadySettled):
        return
    level, verb = (logging.WARNING, "Expired") if ended.failed else (logging.INFO, "Released")
    log.log(
        level, "%s lease %s of queue %s: %d messages are ready again and %d are dead letters, because %s. It was held "
        "by %s.", verb, lease.id, queue.name, report.settled - report.dead, report.dead, reason, lease.owner,
    )  # fmt: skip
    Stats.incr(f"rmq.{verb.lower()}_ended", report.settled, tags={"queue": queue.name})


def pace(interval_s: float, took_s: float, failures: int) -> float:
    """Return the seconds until the next poll."""
    if failures:
        return min(interval_s * 2.0 ** min(failures, 8), max(interval_s, SLOWEST_S))
    return max(interval_s, PART * took_s)
