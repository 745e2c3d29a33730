"""Read a queue's data directly, and make claims expire without a wait.

Everything that a user could see is tested through the queue.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rmq_core import LeasedQueue, Message
from tests.core.redis_message_queue.worlds import World

PATIENCE_S = 300


def _engine(world: World, name: str) -> LeasedQueue:
    return LeasedQueue(world.inspector, name)


def waiting(world: World, name: str = "q") -> list[Any]:
    """Return the pending payloads, the next one first."""
    return _payloads(_engine(world, name).admin.peek(1000))


def in_hand(world: World, name: str = "q") -> int:
    """Return the number of claimed messages."""
    return _engine(world, name).stats().leased


def dead(world: World, name: str = "q") -> list[Any]:
    """Return the payloads of dead letters, the newest first."""
    return _payloads(_engine(world, name).admin.dead_letters(1000))


def logged(world: World, kind: str, name: str = "q") -> list[str]:
    """Return the payloads of the `completed` or `failed` log, the newest first."""
    queue = world.queue(name, client=world.client(decode_responses=True))
    return list(queue.peek(5000, source=kind))


def expire(world: World, name: str = "q") -> None:
    """Let every claim expire, in the order of claiming."""
    leases = sorted(_engine(world, name).admin.leases(limit=1000), key=lambda info: info.fence)
    for past_ms, info in enumerate(leases, start=1):
        world.inspector.zadd(f"rmq:{{{name}}}:leases", {info.id: past_ms}, xx=True)


def let_pass(world: World, seconds: int, name: str = "q") -> None:
    """Let so much time pass for every claim at once."""
    for lease in world.inspector.zrange(f"rmq:{{{name}}}:leases", 0, -1):
        world.inspector.zincrby(f"rmq:{{{name}}}:leases", -1000 * seconds, lease)


def left_s(world: World, name: str = "q") -> float:
    """Return for how many seconds the claim that expires first remains valid."""
    ((_, deadline),) = world.inspector.zrange(f"rmq:{{{name}}}:leases", 0, 0, withscores=True)
    return float(deadline) / 1000 - float(world.inspector.time()[0])


def spoil(world: World) -> None:
    """Make the server refuse every settlement."""
    for key in world.inspector.keys("*"):
        world.inspector.delete(key)
        world.inspector.set(key, "of another type")


def eventually(condition: Callable[[], Any]) -> Any:
    """Return the result of `condition` once it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "this never happened"
        time.sleep(0.005)
    return found


def _payloads(messages: list[Message]) -> list[Any]:
    return [message.payload for message in messages]
