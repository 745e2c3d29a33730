"""One interface for blocking and asyncio code, so that the behaviour of a queue is written once.

Both queues call the gateway and the callbacks of a user; the asyncio queue also awaits their results. Therefore all
operations are coroutines, as `rmq_core/queue/twin.py` describes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

S = TypeVar("S")


class IoMode(NamedTuple):
    """How the two queues differ: whether they await results, how to pause, and the id of the calling thread or task."""

    asynchronous: bool
    pause: Callable[[float], Awaitable[object]]
    me: Callable[[], int]


class Stateful(Generic[S]):
    """Base of a class whose methods run operations on its `_state`."""

    _state: S


async def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251  never runs in an event loop


BLOCKING = IoMode(False, _sleep, threading.get_ident)
ASYNCIO = IoMode(True, asyncio.sleep, lambda: id(asyncio.current_task()))
