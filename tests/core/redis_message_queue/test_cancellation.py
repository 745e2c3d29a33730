"""The fate of a message when its task is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from rmq_core.asyncio import RedisMessageQueue
from tests.core.redis_message_queue.behind import expire, in_hand, waiting
from tests.core.redis_message_queue.places import Real
from tests.core.redis_message_queue.worlds import SyncWorld, World


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.Redis.from_url(redis_url, decode_responses=True) as made:
        yield made


@pytest.fixture
def behind(redis_url: str) -> World:
    """A client that inspects Redis without the queue."""
    return SyncWorld(Real(redis_url))


async def hold(queue: Any, begun: asyncio.Event) -> None:
    async with queue.process_message():
        begun.set()
        await asyncio.sleep(60)


async def test_a_cancelled_handler_leaves_its_message_to_be_redelivered(
    client: redis.asyncio.Redis, behind: World
) -> None:
    queue, begun = RedisMessageQueue("q", client=client), asyncio.Event()
    await queue.publish("x")
    task = asyncio.create_task(hold(queue, begun))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert in_hand(behind) == 1
    expire(behind)
    async with queue.process_message() as message:
        assert message == "x"
    assert in_hand(behind) == 0


async def test_without_visibility_timeout_a_cancelled_message_is_lost(
    client: redis.asyncio.Redis, behind: World
) -> None:
    queue = RedisMessageQueue("q", client=client, visibility_timeout_seconds=None, max_delivery_count=None)
    begun = asyncio.Event()
    await queue.publish("x")
    task = asyncio.create_task(hold(queue, begun))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (waiting(behind), in_hand(behind)) == ([], 1)


async def test_a_cancelled_wait_claims_no_message(redis_url: str, behind: World) -> None:
    begun = asyncio.Event()
    for n in range(60):
        async with redis.asyncio.Redis.from_url(redis_url, decode_responses=True) as client:
            queue = RedisMessageQueue("q", client=client)
            task = asyncio.create_task(hold(queue, begun))
            await asyncio.sleep(0.0005 * n)  # while it connects, sends or waits
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not begun.is_set()
            await queue.publish(f"m{n}")
            async with queue.process_message() as message:
                assert message == f"m{n}"
    assert (waiting(behind), in_hand(behind)) == ([], 0)


async def test_a_message_that_arrives_as_its_waiter_is_cancelled_is_not_lost(
    client: redis.asyncio.Redis, behind: World
) -> None:
    queue, seen = RedisMessageQueue("q", client=client), set[str]()
    for n in range(30):
        begun = asyncio.Event()
        task = asyncio.create_task(hold(queue, begun))
        await asyncio.sleep(0.005)
        await queue.publish(f"m{n}")
        await asyncio.sleep(0.0002 * (n % 10))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        expire(behind)
        async with queue.process_message() as message:
            seen.add(message)
    assert seen == {f"m{n}" for n in range(30)}
    assert in_hand(behind) == 0


async def test_a_cancelled_task_still_finishes_the_settlement_it_began(
    client: redis.asyncio.Redis, behind: World
) -> None:
    queue = RedisMessageQueue("q", client=client, enable_completed_queue=True)
    for n in range(20):
        await queue.publish(f"m{n}")
        leaving = asyncio.Event()

        async def work(leaving: asyncio.Event = leaving) -> None:
            async with queue.process_message():
                leaving.set()

        task = asyncio.create_task(work())
        await leaving.wait()
        task.cancel()
        await asyncio.wait([task])
        assert in_hand(behind) == 0


async def test_a_handlers_own_cancelled_error_is_a_failure_like_any_other(
    client: redis.asyncio.Redis, behind: World
) -> None:
    queue = RedisMessageQueue("q", client=client)
    await queue.publish("x")
    with pytest.raises(asyncio.CancelledError):
        async with queue.process_message():
            raise asyncio.CancelledError
    assert in_hand(behind) == 0
