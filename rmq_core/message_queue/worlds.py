"""Blocking and asyncio behind one face, so that the behaviour of a queue is written once.

What a user gives, a gateway or a callback, is called by either queue and awaited by one. So operations are coroutines
that call through a `World`. Blocking, nothing is ever awaited: a coroutine runs to its end in one go, without a loop.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import update_wrapper
from typing import Any, Generic, NamedTuple, TypeVar

from rmq_core.facade import Shown

C = TypeVar("C", bound=Callable[..., Any])
R = TypeVar("R")
S = TypeVar("S")


class World(NamedTuple):
    """How to call what a user gave, how to pause, and who is calling.

    call: await the result if it has to be. finish: the same, but a cancellation does not cut the call short: it ends
    first, then the task is cancelled.
    """

    asynchronous: bool
    call: Callable[..., Awaitable[Any]]
    finish: Callable[..., Awaitable[Any]]
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


def run(operation: Coroutine[Any, Any, R]) -> R:
    """The result of an operation of the blocking world."""
    try:
        operation.send(None)
    except StopIteration as stop:
        result: R = stop.value
        return result
    operation.close()
    raise RuntimeError("an operation of the blocking world waits for an event loop")


async def _called(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return call(*args, **options)


async def _slept(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251  no event loop runs this


async def _awaited(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    answer = call(*args, **options)
    return await answer if inspect.isawaitable(answer) else answer


async def _finished(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    answer = call(*args, **options)
    if not inspect.isawaitable(answer):
        return answer
    task = asyncio.ensure_future(answer)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at, or asyncio complains that nobody did
        raise


BLOCKING = World(False, _called, _called, _slept, threading.get_ident)
ASYNCIO = World(True, _awaited, _finished, asyncio.sleep, lambda: id(asyncio.current_task()))
