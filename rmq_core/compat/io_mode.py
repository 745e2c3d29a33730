"""One interface for blocking and asyncio code, so that the behaviour of a queue is written once.

Both queues call the gateway and the callbacks of a user; the asyncio queue also awaits their results. Therefore all
operations are coroutines. In the blocking queue they never suspend, so `run` completes each in one step and needs no
event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R")
S = TypeVar("S")


class IoMode(NamedTuple):
    """How the two queues differ: whether they await results, how to pause, and the id of the calling thread or task."""

    asynchronous: bool
    pause: Callable[[float], Awaitable[object]]
    me: Callable[[], int]


class Stateful(Generic[S]):
    """Base of a class whose methods run operations on its `_state`."""

    _state: S


async def awaited(value: Any, *, finish: bool = False) -> Any:
    """Return the result of a user's function, awaited if it is awaitable.

    finish: a cancellation does not interrupt the function; it runs to its end, then the task is cancelled.
    """
    if not inspect.isawaitable(value):
        return value
    if not finish:
        return await value
    task = asyncio.ensure_future(value)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # retrieved, because asyncio logs an exception that is never retrieved
        raise


async def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251  never runs in an event loop


BLOCKING = IoMode(False, _sleep, threading.get_ident)
ASYNCIO = IoMode(True, asyncio.sleep, lambda: id(asyncio.current_task()))
