"""Take back the leases of holders that have ended, with one watch for each connection that the page shows.

Law: a slow or dead server delays no other. Every API server runs these watches without coordination: a watch takes
a lease back only if the lease still has the owner that the watch saw.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from airflow.providers.common.compat.sdk import conf

from rmq_airflow.location import Location
from rmq_airflow.plugin import connections
from rmq_airflow.plugin.watches import ConnectionWatch, Trouble, pace

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
