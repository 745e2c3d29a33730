from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rmq_core.message_queue.worlds import ASYNCIO, BLOCKING, World, run


async def later() -> int:
    return 5


def both(call: Any) -> list[Any]:
    """What a call gives in either world."""
    return [run(_called(BLOCKING, call)), asyncio.run(_called(ASYNCIO, call))]


async def _called(world: World, call: Any) -> Any:
    return await world.call(call), await world.finish(call)


def test_plain_calls_return_in_both_worlds() -> None:
    assert both(lambda: 1) == [(1, 1)] * 2


def test_what_a_call_raises_is_raised_in_both_worlds() -> None:
    async def failed(world: World) -> str:
        with pytest.raises(ZeroDivisionError):
            await world.finish(lambda: 1 // 0)
        return "saved"

    assert [run(failed(BLOCKING)), asyncio.run(failed(ASYNCIO))] == ["saved"] * 2


def test_only_the_asyncio_world_awaits() -> None:
    assert asyncio.run(_called(ASYNCIO, later)) == (5, 5)
    coroutine: Any = run(BLOCKING.call(later))
    assert asyncio.run(coroutine) == 5


def test_what_waits_for_a_loop_has_none_in_the_blocking_world() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        run(ASYNCIO.call(asyncio.sleep, 0))  # type: ignore[arg-type]


def cancelled_while(call: Any) -> list[str]:
    """What a call got done whose task was cancelled in its middle."""
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.01)
        done.append("work")

    async def operation() -> None:
        try:
            await call(work)
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
    assert cancelled_while(ASYNCIO.call) == ["cancelled"]


def test_a_call_to_be_finished_ends_before_the_cancellation_is_seen() -> None:
    assert cancelled_while(ASYNCIO.finish) == ["work", "cancelled"]


def test_a_call_to_be_finished_raises_like_any_other() -> None:
    async def fail() -> None:
        raise OSError("inside")

    async def operation() -> None:
        with pytest.raises(OSError, match="inside"):
            await ASYNCIO.finish(fail)

    asyncio.run(operation())
