"""Identifiers: unique without coordination, and short because every envelope contains one."""

from __future__ import annotations

import itertools
import os
from collections import deque

_counter = itertools.count()
_leases = itertools.count(1)
_prefix = os.urandom(8).hex()


_nonces: deque[str] = deque()


class ThisProcess:
    """This process. `id` caches os.getpid(), which is a system call and too slow to make at every operation."""

    __slots__ = ("id",)

    def __init__(self) -> None:
        self.id = os.getpid()


process = ThisProcess()


def nonce() -> str:
    """Return 64 random bits in hexadecimal, read in blocks of 256: a system call for each would slow down claims."""
    try:
        return _nonces.pop()
    except IndexError:
        drawn = os.urandom(8 * 256).hex()
        _nonces.extend(drawn[at : at + 16] for at in range(16, len(drawn), 16))
        return drawn[:16]


def new_id() -> str:
    """Return an id that is unique among all processes: 64 random bits of the process and a counter."""
    return f"{_prefix}-{next(_counter):x}"


def new_ids(count: int) -> list[str]:
    """Return `count` such ids."""
    prefix = _prefix
    return [f"{prefix}-{number:x}" for number in itertools.islice(_counter, count)]


def anonymous_lease_id() -> str:
    """Return a unique lease id of a form that callers cannot choose; it is short because every lease stores it."""
    return f"~{_prefix}{next(_leases):x}"


def _renew() -> None:
    global _prefix  # noqa: PLW0603  a forked child must not repeat its parent's ids
    _nonces.clear()
    _prefix = nonce()
    process.id = os.getpid()


os.register_at_fork(after_in_child=_renew)
