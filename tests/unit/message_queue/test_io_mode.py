from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import rmq_core.asyncio.redis_message_queue as theirs
import rmq_core.redis_message_queue as ours
from rmq_core.queue.twin import awaited, stepped


async def later() -> int:
    return 5


@pytest.mark.parametrize("finish", [False, True])
def test_only_awaitables_are_awaited(finish: object) -> None:
    assert asyncio.run(awaited(later(), finish=bool(finish))) == 5
    assert stepped(awaited(5, finish=bool(finish))) == 5


def test_an_exception_of_an_operation_propagates() -> None:
    async def operation() -> None:
        raise OSError("inside")

    with pytest.raises(OSError, match="inside"):
        stepped(operation())


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


@pytest.mark.parametrize("module", [ours, theirs])
def test_help_shows_the_public_signatures(module: Any) -> None:
    publish, move = module.RedisMessageQueue.publish, module.RedisGateway.move_message
    assert str(inspect.signature(publish)) == "(self, message: str | dict[str, typing.Any]) -> bool"
    assert [*inspect.signature(move).parameters] == ["self", "from_queue", "to_queue", "message", "lease_token"]
    assert {publish.__name__, move.__name__} == {"publish", "move_message"}
    assert inspect.iscoroutinefunction(publish) == inspect.iscoroutinefunction(move) == (module is theirs)
