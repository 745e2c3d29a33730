"""The server has a core of its own, the clients have the others; `anywhere` undoes it.

Left to itself the kernel moves a client and the server it talks to onto one core, or onto two, as it sees fit, and a
round trip costs three times as much in the one case as in the other. Where there is only one core, or no way to choose,
nothing is chosen. Only the server's main thread is bound: the threads that free memory may run anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
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
    apart(running.process.pid, [0])
    return running


def apart(server_pid: int, clients: Iterable[int]) -> None:
    """Give a server the last core, and its clients the others; process 0 is this one."""
    _bind([server_pid], _CORES[-1:])
    _bind(clients, _CORES[:-1])


def anywhere(server_pid: int, clients: Iterable[int]) -> None:
    """Let the system place a server and its clients, as it does on everybody's machine."""
    _bind([server_pid, *clients], _CORES)


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
    _bind([0], _CORES)


def _bind(pids: Iterable[int], cores: Sequence[int]) -> None:
    if len(_CORES) > 1:
        for pid in pids:
            os.sched_setaffinity(pid, cores)
