"""Clocks for jobs: what some operations took of time, and of processor time of the client and of the server.

Imports the standard library alone, because it runs in the environment of every library that is measured.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Taken(NamedTuple):
    """Seconds: by the clock, of the client's processors and of the server's main thread."""

    wall_s: float
    client_s: float
    server_s: float

    def since(self, before: Taken) -> Taken:
        return Taken(*(now - then for now, then in zip(self, before, strict=True)))

    def per(self, count: int) -> Taken:
        return Taken(*(each / count for each in self))


class Clock:
    """Reads all three clocks; the server's is that of the process `server_pid`, 0 where the system tells nothing."""

    def __init__(self, server_pid: int) -> None:
        self._server = Path(f"/proc/{server_pid}/schedstat")
        self._told = self._server.exists()

    def now(self) -> Taken:
        server_ns = int(self._server.read_text().split()[0]) if self._told else 0
        return Taken(time.perf_counter(), time.process_time(), server_ns / 1e9)


class Tally:
    """Counts the jobs that a handler got, of any thread, and times the middle of them.

    The first tenth is left out, in which a worker warms up, and the last, in which it fetches no more: a worker that
    fetches ahead has as much in stock when the clock starts as when it ends.
    """

    def __init__(self, clock: Clock, count: int, ended: Callable[[], None]) -> None:
        self._clock, self._ended = clock, ended
        self._numbers = itertools.count(1)  # one step of it cannot be interrupted by another thread
        self._first, self._until, self._last = count // 10, count - count // 10, count
        self._began: Taken | None = None
        self.timed = self._until - self._first
        self.taken: Taken | None = None

    def note(self) -> None:
        """A handler got a job."""
        number = next(self._numbers)
        if number == self._first:
            self._began = self._clock.now()
        elif number == self._until and self._began:
            self.taken = self._clock.now().since(self._began)
        elif number == self._last:
            self._ended()
