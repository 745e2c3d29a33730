"""Give the server a core of its own and the clients the others; `anywhere` undoes it.

Without this, the kernel places a client and its server on the same core or on two, and a round trip costs three times
as much in one case as in the other. On a machine with one core, or without a way to set the affinity, this module
changes nothing. Only the server's main thread is bound: the threads that free memory may run anywhere.
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
    """Start such a server; the caller stops it."""
    spread_out()
    running = start_server(name)
    apart(running.process.pid, [0])
    return running


def apart(server_pid: int, clients: Iterable[int]) -> None:
    """Give a server the last core, and its clients the others; process 0 is this one."""
    _bind([server_pid], _CORES[-1:])
    _bind(clients, _CORES[:-1])


def anywhere(server_pid: int, clients: Iterable[int]) -> None:
    """Let the operating system place a server and its clients, as it does by default."""
    _bind([server_pid, *clients], _CORES)


@contextmanager
def everywhere() -> Iterator[None]:
    """Let this process and its children use every core during the block, because the block is not measured."""
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
