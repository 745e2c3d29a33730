from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rmq_core.message_queue.steps import Steps, Whole, run, run_async


def both(make: Callable[[], Steps[Any]]) -> list[Any]:
    return [run(make()), asyncio.run(run_async(make()))]


def test_steps_get_what_their_calls_return_and_return_a_result() -> None:
    def steps() -> Steps[list[int]]:
        return [(yield lambda: 1), (yield lambda: 2)]

    assert both(steps) == [[1, 2], [1, 2]]


def test_steps_see_what_their_calls_raise() -> None:
    def steps() -> Steps[str]:
        try:
            yield lambda: 1 // 0
        except ZeroDivisionError:
            return (yield lambda: "saved")
        return "not raised"

    assert both(steps) == ["saved", "saved"]


def test_what_steps_do_not_catch_goes_on() -> None:
    def steps() -> Steps[None]:
        yield lambda: 1 // 0

    with pytest.raises(ZeroDivisionError):
        run(steps())
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run_async(steps()))


def test_only_the_asyncio_world_awaits() -> None:
    async def later() -> int:
        return 5

    def steps() -> Steps[Any]:
        return (yield later)

    assert asyncio.run(run_async(steps())) == 5
    coroutine = run(steps())
    assert asyncio.run(coroutine) == 5


def cancelled_while(whole: object) -> list[str]:
    """What a step got done whose task was cancelled in its middle."""
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        done.append("work")

    def steps() -> Steps[None]:
        try:
            yield Whole(work) if whole else work
        except asyncio.CancelledError:
            done.append("cancelled")
            raise

    async def main() -> None:
        task = asyncio.create_task(run_async(steps()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    return done


def test_a_cancellation_cuts_a_step_short() -> None:
    assert cancelled_while(whole=False) == ["cancelled"]


def test_a_whole_step_ends_before_the_cancellation_is_seen() -> None:
    assert cancelled_while(whole=True) == ["work", "cancelled"]


def test_a_whole_step_returns_and_raises_like_any_other() -> None:
    async def fail() -> None:
        raise OSError("inside")

    def steps() -> Steps[int]:
        with pytest.raises(OSError, match="inside"):
            yield Whole(fail)
        return (yield Whole(lambda: 3))

    assert asyncio.run(run_async(steps())) == 3
