"""One coroutine function as a blocking and an asyncio method (`Twin`), or as two such functions (`twins`).

An operation that only sends requests to Redis is an exchange. Code that calls a function of a user is a coroutine
instead, because a driver would take the errors of that function for those of Redis. With asyncio it is awaited. In a
blocking class nothing in it suspends, so `stepped` completes it in one step, without an event loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, overload

P = ParamSpec("P")
R = TypeVar("R")


class Blocking:
    """Marks a class whose methods block."""

    __slots__ = ()


class Awaited:
    """Marks a class whose methods are awaited."""

    __slots__ = ()


class Twin(Generic[P, R]):
    """Decorates a coroutine function of a base class: a method that blocks in a `Blocking` subclass."""

    def __init__(self, operation: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> None:
        def blocking(*args: Any, **kwargs: Any) -> R:
            return stepped(operation(*args, **kwargs))

        self._awaited: Any = operation
        self._blocking: Any = update_wrapper(blocking, operation)

    @overload
    def __get__(self, owner: Blocking, kind: object) -> Callable[P, R]: ...
    @overload
    def __get__(self, owner: Awaited, kind: object) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, owner: object, kind: object) -> Callable[P, Any]: ...
    def __get__(self, owner: Any, kind: Any) -> Any:
        return (self._awaited if issubclass(kind, Awaited) else self._blocking).__get__(owner, kind)


CoroutineFunction: TypeAlias = Callable[P, Coroutine[Any, Any, R]]


def twins(
    operation: Callable[Concatenate[bool, P], Coroutine[Any, Any, R]],
) -> tuple[Callable[P, R], CoroutineFunction[P, R]]:
    """Return the blocking and the awaited function of one body; its first argument is whether it is awaited."""
    known = inspect.signature(operation)
    shown = known.replace(parameters=list(known.parameters.values())[1:])

    def blocking(*args: P.args, **kwargs: P.kwargs) -> R:
        return stepped(operation(False, *args, **kwargs))

    async def in_asyncio(*args: P.args, **kwargs: P.kwargs) -> R:
        return await operation(True, *args, **kwargs)

    made: Any
    for made in (blocking, in_asyncio):
        made.__signature__ = shown
        made.__module__, made.__doc__ = operation.__module__, operation.__doc__
        made.__name__ = made.__qualname__ = operation.__name__.lstrip("_")
    return blocking, in_asyncio


def stepped(operation: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in which nothing suspends, and return its result."""
    try:
        operation.send(None)
    except StopIteration as stop:
        result: R = stop.value
        return result
    operation.close()
    raise RuntimeError("a blocking method got an awaitable that waits for an event loop: use the class for asyncio")


async def awaited(value: Any, *, finish: bool = False) -> Any:
    """Return the result of a call, awaited if it is awaitable.

    finish: a cancellation does not interrupt the function; it runs to its end, then the task is cancelled.
    """
    if not inspect.isawaitable(value):
        return value
    if not finish:
        return await value
    import asyncio  # a blocking program, such as `rmq --help`, does without its 30 ms

    task = asyncio.ensure_future(value)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # retrieved, because asyncio logs an exception that is never retrieved
        raise
