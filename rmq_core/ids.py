"""Identifiers: unique without asking anybody, short because they stand in every envelope."""

from __future__ import annotations

import itertools
import os

_counter = itertools.count()
_leases = itertools.count(1)
_prefix = os.urandom(8).hex()


def nonce() -> str:
    """64 random bits in hexadecimal."""
    return os.urandom(8).hex()


def new_id() -> str:
    """An id unique among all processes: 64 random bits of the process and a counter."""
    return f"{_prefix}-{next(_counter):x}"


def anonymous_lease_id() -> str:
    """A lease id that nobody else has and that no caller can choose; short, for it is stored with every lease."""
    return f"~{_prefix}{next(_leases):x}"


def _renew() -> None:
    global _prefix  # noqa: PLW0603  a forked child must not repeat its parent's ids
    _prefix = nonce()


os.register_at_fork(after_in_child=_renew)
