"""`process_message_callback`, and the state that a queue object reports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.core.redis_message_queue.behind import expire, in_hand, logged
from tests.core.redis_message_queue.places import Fake
from tests.core.redis_message_queue.worlds import AsyncWorld, SyncWorld, World


def test_a_callback_gets_a_message_and_its_return_acknowledges(world: World) -> None:
    queue, seen = world.glance(), []
    queue.publish("x")
    assert queue.process_message_callback(seen.append) is True
    assert queue.process_message_callback(seen.append) is False
    assert seen == ["x"]
    assert in_hand(world) == 0


def test_a_callback_that_raises_moves_its_message_to_the_failed_log(world: World) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError

    queue = world.queue(enable_failed_queue=True)
    queue.publish("x")
    with pytest.raises(ZeroDivisionError):
        queue.process_message_callback(fail)
    assert logged(world, "failed") == ["x"]


def test_a_sync_queue_refuses_a_callback_that_must_be_awaited_and_keeps_the_message() -> None:
    async def handle(_: str) -> None:
        pytest.fail("awaited")

    with SyncWorld(Fake()) as world:
        queue = world.queue()
        queue.publish("x")
        with pytest.raises(TypeError, match=r"await|async"):
            queue.process_message_callback(handle)
        assert in_hand(world) == 1
        expire(world)
        with queue.process_message() as message:
            assert message == "x"


def test_an_async_queue_awaits_its_callback() -> None:
    seen: list[Any] = []

    async def handle(message: str) -> None:
        await asyncio.sleep(0)
        seen.append(message)

    with AsyncWorld(Fake()) as world:
        queue = world.queue()
        queue.publish("x")
        assert queue.process_message_callback(handle) is True
        assert seen == ["x"]
        assert in_hand(world) == 0


def test_a_queue_reports_whether_it_is_draining_and_drained(world: World) -> None:
    queue = world.queue()
    assert (queue.is_draining, queue.is_drained) == (False, False)
    queue.drain()
    assert (queue.is_draining, queue.is_drained) == (True, True)
    other = world.queue()
    assert (other.is_draining, other.is_drained) == (False, False)


def test_a_queue_with_a_running_handler_counts_as_drained_too(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    with queue.process_message():
        queue.drain()
        assert queue.is_drained
