"""Clocks for jobs: the time of some operations, and the processor time of the client and of the server.

This module imports only the standard library, because it runs in the environment of every measured library.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Taken(NamedTuple):
    """Seconds: wall-clock time, processor time of the client, and processor time of the server's main thread."""

    wall_s: float
    client_s: float
    server_s: float

    def since(self, before: Taken) -> Taken:
        return Taken(*(now - then for now, then in zip(self, before, strict=True)))

    def per(self, count: int) -> Taken:
        return Taken(*(each / count for each in self))


class Clock:
    """Read all three clocks; the server is the process `server_pid`, its time is 0 if the system does not report it."""

    def __init__(self, server_pid: int) -> None:
        self._server = Path(f"/proc/{server_pid}/schedstat")
        self._told = self._server.exists()

    def now(self) -> Taken:
        server_ns = int(self._server.read_text().split()[0]) if self._told else 0
        return Taken(time.perf_counter(), time.process_time(), server_ns / 1e9)


class Tally:
    """Count the jobs that handlers got, in any thread, and time the middle of them.

    The first tenth is left out, because the worker warms up; the last tenth too, because the worker fetches nothing
    more. So a worker with prefetch has the same number of fetched jobs when the clock starts and when it ends.
    """

    def __init__(self, clock: Clock, count: int, ended: Callable[[], None]) -> None:
        self._clock, self._ended = clock, ended
        self._numbers = itertools.count(1)  # `next` on it is atomic between threads
        self._first, self._until, self._last = count // 10, count - count // 10, count
        self._began: Taken | None = None
        self.timed = self._until - self._first
        self.taken: Taken | None = None

    def note(self) -> None:
        """Record that a handler got a job."""
        number = next(self._numbers)
        if number == self._first:
            self._began = self._clock.now()
        elif number == self._until and self._began:
            self.taken = self._clock.now().since(self._began)
        elif number == self._last:
            self._ended()
