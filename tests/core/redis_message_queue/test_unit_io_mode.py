from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rmq_core.twin import awaited, stepped


def test_an_operation_that_needs_an_event_loop_fails_in_blocking_code() -> None:
    async def operation() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="event loop"):
        stepped(operation())


def cancelled_while(*, finish: bool) -> list[str]:
    """Return what a call completed whose task was cancelled in its middle."""
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        done.append("work")

    async def operation() -> None:
        try:
            await awaited(work(), finish=finish)
        except asyncio.CancelledError:
            done.append("cancelled")
            raise

    async def main() -> None:
        task = asyncio.create_task(operation())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    return done


def test_a_cancellation_cuts_a_call_short() -> None:
    assert cancelled_while(finish=False) == ["cancelled"]


def test_a_call_marked_to_finish_ends_before_the_cancellation_is_raised() -> None:
    assert cancelled_while(finish=True) == ["work", "cancelled"]


def test_a_call_marked_to_finish_raises_like_any_other() -> None:
    async def fail() -> Any:
        raise OSError("inside")

    with pytest.raises(OSError, match="inside"):
        asyncio.run(awaited(fail(), finish=True))
