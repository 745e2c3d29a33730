"""Identifiers: unique without asking anybody, short because they stand in every envelope."""

from __future__ import annotations

import itertools
import os
from collections import deque

_counter = itertools.count()
_leases = itertools.count(1)
_prefix = os.urandom(8).hex()


_nonces: deque[str] = deque()


class ThisProcess:
    """This process. `id` is what os.getpid() says, which is a system call and too dear to ask for at every call."""

    __slots__ = ("id",)

    def __init__(self) -> None:
        self.id = os.getpid()


process = ThisProcess()


def nonce() -> str:
    """64 random bits in hexadecimal; drawn from the system by the block, for a system call costs more than a claim."""
    try:
        return _nonces.pop()
    except IndexError:
        drawn = os.urandom(8 * 256).hex()
        _nonces.extend(drawn[at : at + 16] for at in range(16, len(drawn), 16))
        return drawn[:16]


def new_id() -> str:
    """An id unique among all processes: 64 random bits of the process and a counter."""
    return f"{_prefix}-{next(_counter):x}"


def new_ids(count: int) -> list[str]:
    """So many of them."""
    prefix = _prefix
    return [f"{prefix}-{number:x}" for number in itertools.islice(_counter, count)]


def anonymous_lease_id() -> str:
    """A lease id that nobody else has and that no caller can choose; short, for it is stored with every lease."""
    return f"~{_prefix}{next(_leases):x}"


def _renew() -> None:
    global _prefix  # noqa: PLW0603  a forked child must not repeat its parent's ids
    _nonces.clear()
    _prefix = nonce()
    process.id = os.getpid()


os.register_at_fork(after_in_child=_renew)
