"""Identifiers: unique without asking anybody, short because they stand in every envelope."""

from __future__ import annotations

import itertools
import os

_counter = itertools.count()
_prefix = os.urandom(8).hex()


def nonce() -> str:
    """64 random bits in hexadecimal."""
    return os.urandom(8).hex()


def new_id() -> str:
    """An id unique among all processes: 64 random bits of the process and a counter."""
    return f"{_prefix}-{next(_counter):x}"


def _renew() -> None:
    global _prefix  # noqa: PLW0603  a forked child must not repeat its parent's ids
    _prefix = nonce()


os.register_at_fork(after_in_child=_renew)
