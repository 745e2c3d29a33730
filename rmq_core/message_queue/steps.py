"""Behaviour that does not know whether it is awaited.

Steps are a generator that yields calls and receives their results. `run` makes the calls; `run_async` also awaits
what they return. So gateways and callbacks of both worlds are driven by one text.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

R = TypeVar("R")


class Whole(NamedTuple):
    """A call that a cancellation must not cut short: it ends first, then the task is cancelled."""

    call: Callable[[], Any]

    def __call__(self) -> Any:
        return self.call()


Step: TypeAlias = Callable[[], Any] | Whole
Steps: TypeAlias = Generator[Step, Any, R]


def run(steps: Steps[R]) -> R:
    """Take the steps, blocking."""
    try:
        step = next(steps)
        while True:
            try:
                answer = step()
            except BaseException as error:  # noqa: BLE001  the steps decide what an interruption means
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        result: R = stop.value
        return result


async def run_async(steps: Steps[R]) -> R:
    """Take the steps, awaiting what has to be awaited."""
    try:
        step = next(steps)
        while True:
            try:
                answer = step()
                if inspect.isawaitable(answer):
                    answer = await (_to_the_end(answer) if isinstance(step, Whole) else answer)
            except BaseException as error:  # noqa: BLE001  the steps decide what a cancellation means
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        result: R = stop.value
        return result


async def _to_the_end(awaitable: Awaitable[R]) -> R:
    task = asyncio.ensure_future(awaitable)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at, or asyncio complains that nobody did
        raise
