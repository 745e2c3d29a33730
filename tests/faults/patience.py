"""Waiting for what must happen, without a bound that a slow machine could miss."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 300


def eventually(condition: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """What `condition` returns once it is true; fails when that never happens."""
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "this never happened"
        time.sleep(0.005)
    return found
