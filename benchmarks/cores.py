"""The server has a core of its own, the clients have the others.

Left to itself the kernel moves a client and the server it talks to onto one core, or onto two, as it sees fit, and a
round trip costs three times as much in the one case as in the other. Where there is only one core, or no way to choose,
nothing is chosen. Only the server's main thread is bound: the threads that free memory may run anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.servers import Server, start_server

_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@contextmanager
def server(name: str) -> Iterator[Server]:
    """A server of this name on the last core."""
    running = start(name)
    try:
        yield running
    finally:
        running.stop()


def start(name: str) -> Server:
    """The same; the caller stops it."""
    spread_out()
    running = start_server(name)
    if len(_CORES) > 1:
        os.sched_setaffinity(running.process.pid, _CORES[-1:])
        os.sched_setaffinity(0, _CORES[:-1])
    return running


@contextmanager
def everywhere() -> Iterator[None]:
    """Let this process and those it starts use every core for a while: what runs now is not measured."""
    before = os.sched_getaffinity(0) if _CORES else set()
    spread_out()
    yield
    if before:
        os.sched_setaffinity(0, before)


def spread_out() -> None:
    """Let this process use every core."""
    if len(_CORES) > 1:
        os.sched_setaffinity(0, _CORES)
