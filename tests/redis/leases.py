"""What the tests of the leased engine share: time that passes at once, answers that get lost, looks behind it."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Any

import redis

from tests.redis.worlds import World

PATIENCE_S = 20
"""How long a test waits for what must happen before it says that it never did."""


def key(name: str, queue: str = "q") -> str:
    """A key of a queue as Redis knows it."""
    return f"rmq:{{{queue}}}:{name}"


def expire(world: World, lease_id: str, queue: str = "q") -> None:
    """Let the deadline of a lease be in the past."""
    assert world.client.zadd(key("leases", queue), {lease_id: 1}, xx=True, ch=True) == 1


def fall_due(world: World, queue: str = "q") -> None:
    """Let the delay of every delayed message be over."""
    members = world.client.zrange(key("delayed", queue), 0, -1)
    assert members
    world.client.zadd(key("delayed", queue), dict.fromkeys(members, 1), xx=True)


def payloads(messages: Iterable[Any]) -> list[Any]:
    return [message.payload for message in messages]


def drain(queue: Any) -> list[Any]:
    """The payloads of everything that can be claimed, acked on the way."""
    found: list[Any] = []
    while lease := queue.claim(max_messages=1000):
        found += payloads(queue.messages(lease))
        queue.ack(lease)
    return found


def snapshot(client: redis.Redis) -> dict[bytes, bytes | None]:
    """Every key with its value, to see that nothing was written; call slots aside, which remember refusals too."""
    return {name: client.dump(name) for name in client.scan_iter(count=1000) if b":slot:" not in name}


def eventually(condition: Callable[[], Any]) -> Any:
    """What `condition` returns once it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "this never happened"
        time.sleep(0.002)
    return found


async def eventually_later(condition: Callable[[], Awaitable[Any]]) -> Any:
    """`eventually` for a condition that must be awaited."""
    async with asyncio.timeout(PATIENCE_S):
        found = await condition()
        while not found:
            await asyncio.sleep(0.002)
            found = await condition()
        return found


def blocked(world: World, count: int) -> None:
    """Return when that many clients wait in Redis."""
    eventually(lambda: world.client.info("clients")["blocked_clients"] >= count)


def engine_of(queue: Any) -> Any:
    return getattr(queue, "inner", queue)._engine


def driver_of(queue: Any) -> Any:
    return getattr(queue, "inner", queue)._driver


def run(world: World, queue: Any, *wants: Any) -> Any:
    """Send requests one by one, as an operation of the queue would; the last reply."""

    def operation() -> Generator[Any, Any, Any]:
        reply = None
        for want in wants:
            reply = yield want
        return reply

    loop = getattr(world, "loop", None)
    return loop.call(driver_of(queue).run, operation()) if loop else driver_of(queue).run(operation())


def lose_answer(queue: Any, error: BaseException) -> None:
    """The next write of the queue reaches Redis and takes effect; instead of its answer, `error` comes back."""
    driver = driver_of(queue)
    send = driver._send

    async def broken_later(*write: Any) -> None:
        del driver._send
        await send(*write)
        raise error

    def broken(*write: Any) -> None:
        del driver._send
        send(*write)
        raise error

    driver._send = broken_later if inspect.iscoroutinefunction(send) else broken
