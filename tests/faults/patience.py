"""Wait for a condition, without a timeout that a slow machine could miss."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 300


def eventually(condition: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """Return the result of `condition` once it is true; fail when that never happens."""
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "this never happened"
        time.sleep(0.005)
    return found


async def eventually_async(condition: Callable[[], T]) -> T:
    """Do the same in an event loop, which continues in the meantime."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := condition()):
            await asyncio.sleep(0.02)
    return found
