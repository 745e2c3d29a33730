"""Take back the leases of holders that have ended: release those that somebody ended, expire those whose task failed.

Law: one watch polls each connection that the page shows, so a slow or dead server delays no other. Every failure is
logged once and retried with growing pauses. Every wait is short, and polling takes only a fraction of the time: a slow
server is polled less often. Every API server runs these watches without coordination: a watch takes a lease back only
if the lease still has the owner that the watch saw.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from airflow.observability.stats import Stats
from airflow.providers.common.compat.sdk import AirflowNotFoundException, conf

from rmq_airflow.location import Location
from rmq_airflow.plugin import connections
from rmq_airflow.plugin.holders import Standing, standings
from rmq_core import LeaseAlreadySettled, LeasedQueue, LeaseLost, QueueUnavailable, RedisMessageQueueError, disciplines
from rmq_core.reports import LeaseInfo

GRACE_S = 10.0
"""How long a holder must have ended before its lease is taken back.

A user can mark a running task as ended. The task learns of it at its next heartbeat, after 5 s, and then releases its
messages itself. The time also allows for a user who marks a task and clears it right afterwards.
"""


class Endings:
    """The state of holders as seen at earlier polls.

    A missing task instance counts as ended only if it is known, now or from an earlier poll, to have existed.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._since: dict[str, float] = {}

    def due(self, standings: Mapping[str, Standing], now: float) -> dict[str, Standing]:
        """Return the owners whose leases to take back `now`; forget owners missing from `standings`."""
        self._known = {owner for owner, standing in standings.items() if standing.known or owner in self._known}
        ended = [owner for owner in self._known if standings[owner].reason is not None]
        self._since = {owner: self._since.get(owner, now) for owner in ended}
        return {owner: standings[owner] for owner in ended if now - self._since[owner] >= GRACE_S}


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
        """Stop the thread after its current poll."""
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


REREAD_S = 60.0
STOP_S = 5.0
SHORTEST_S = 1.0
CLIENT_NAME = "rmq-airflow-releases"


def run(over: threading.Event) -> None:
    """Watch until `over` is set; return at once if the configuration turns this off."""
    if conf.getboolean("rmq", "release_ended", fallback=True):
        watches = Watches(max(SHORTEST_S, conf.getfloat("rmq", "release_interval", fallback=5.0)))
        pause_s = 0.0
        while not over.wait(pause_s):
            pause_s = watches.reread()
        watches.stop()


class Watches:
    """One watch for each connection; a watch runs as long as its connection exists with the same settings."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._running: dict[str, ConnectionWatch] = {}
        self._trouble = Trouble("The connections whose leases are to be released")
        self._troubles: dict[str, Trouble] = {}

    def reread(self) -> float:
        """Read the connections again, start and stop watches; return the seconds until the next call."""
        with self._trouble.logged():
            self._follow(self._places([known.id for known in connections.known()]))
        return pace(self._interval_s, 0.0, self._trouble.times) if self._trouble.times else REREAD_S

    def stop(self) -> None:
        """Stop all watches, and wait a few seconds for those that are in a poll."""
        for watch in self._running.values():
            watch.stop()
        until = time.monotonic() + STOP_S
        for watch in self._running.values():
            watch.join(max(0.0, until - time.monotonic()))
        self._running.clear()

    def _places(self, ids: list[str]) -> dict[str, Location]:
        """Return where the connections lead; log an unreadable one once, and keep its previous place."""
        found = {}
        self._troubles = {name: self._troubles.get(name) or Trouble(f"Connection {name!r}") for name in ids}
        for name, trouble in self._troubles.items():
            with trouble.logged():
                found[name] = connections.place(name, CLIENT_NAME)
            if name not in found and name in self._running:
                found[name] = self._running[name].place
        return found

    def _follow(self, places: Mapping[str, Location]) -> None:
        for name, watch in list(self._running.items()):
            if places.get(name) != watch.place:
                self._running.pop(name).stop()
        for name, place in places.items():
            if name not in self._running:
                self._running[name] = ConnectionWatch(name, place, self._interval_s)
                self._running[name].start()
