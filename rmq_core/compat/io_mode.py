"""Blocking and asyncio behind one face, so that the behaviour of a queue is written once.

What a user gives, a gateway or a callback, is called by either queue and awaited by one. So operations are coroutines.
Blocking, they await nothing that suspends: `run` needs no event loop, and no second step.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from functools import update_wrapper
from typing import Any, Generic, NamedTuple, TypeVar

from rmq_core.queue import Shown

C = TypeVar("C", bound=Callable[..., Any])
R = TypeVar("R")
S = TypeVar("S")


class IoMode(NamedTuple):
    """What differs: whether results are awaited, how to pause, and who is calling."""

    asynchronous: bool
    pause: Callable[[float], Awaitable[object]]
    me: Callable[[], int]


class Stateful(Generic[S]):
    """An object whose methods are operations over a state."""

    _state: S


def shown(call: C, operation: Callable[..., Any]) -> C:
    """A method as `help` shows it: like the operation, whose first argument is the state of the method's object."""
    wrapped: Any = update_wrapper(call, operation)
    wrapped.__wrapped__ = Shown(operation, lambda result: result)
    return call


async def awaited(value: Any, *, finish: bool = False) -> Any:
    """What a user's function returned, awaited if it has to be.

    finish: a cancellation does not cut it short. It ends first, then the task is cancelled.
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
            task.exception()  # looked at, or asyncio complains that nobody did
        raise


async def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251  no event loop runs this


BLOCKING = IoMode(False, _sleep, threading.get_ident)
ASYNCIO = IoMode(True, asyncio.sleep, lambda: id(asyncio.current_task()))
