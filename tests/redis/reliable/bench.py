"""What the tests of the reliable discipline share: queues, reapers, time that passes at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rmq_core import Reaper
from rmq_core.asyncio import Reaper as AsyncReaper
from rmq_core.discipline.reliable.keys import ReliableKeys
from rmq_core.reliable import ReliableConfig
from tests.redis.leases import PATIENCE_S
from tests.redis.worlds import AsyncWorld, Blocking, World

KEYS = ReliableKeys("q")
AN_HOUR_MS = 3_600_000


def worker(world: World, name: str = "w", queue: str = "q", **settings: Any) -> Any:
    """A queue object that claims under that name."""
    return world.open("reliable", queue, ReliableConfig(worker=name, **settings))


def reaper(world: World, queue: Any, **settings: Any) -> Any:
    """A reaper of this world's flavour."""
    if isinstance(world, AsyncWorld):
        return Blocking(AsyncReaper(queue.inner, **settings), world.loop)
    return Reaper(queue, **settings)


@contextmanager
def running(world: World, made: Any) -> Iterator[None]:
    """Let a reaper go round and round in the background."""
    stop: Any = world.loop.call(asyncio.Event) if isinstance(world, AsyncWorld) else threading.Event()
    going = world.in_background(made.run, stop)
    try:
        yield
    finally:
        if isinstance(world, AsyncWorld):
            world.loop._loop.call_soon_threadsafe(stop.set)
        else:
            stop.set()
        going.result(PATIENCE_S)


def age(world: World, name: str = "w", ms: int = AN_HOUR_MS) -> None:
    """Let what a worker holds have been claimed, or promised until, so much earlier."""
    key = KEYS.claims(name)
    for field, claim in world.client.hgetall(key).items():
        token, since, until = claim.decode().split(" ")
        later = int(until) and int(until) - ms
        world.client.hset(key, field, f"{token} {int(since) - ms} {later}")


def age_strays(world: World, ms: int = AN_HOUR_MS) -> None:
    """Let the reaper have seen strays so much earlier."""
    for field, seen in world.client.hgetall(KEYS.strays).items():
        world.client.hset(KEYS.strays, field, int(seen) - ms)


def processing(world: World, name: str = "w") -> list[bytes]:
    """What a worker's list holds, newest first."""
    found: list[bytes] = world.client.lrange(KEYS.processing(name), 0, -1)
    return found


def payloads(messages: Any) -> list[Any]:
    return [message.payload for message in messages]


def drain(queue: Any) -> list[Any]:
    """The payloads of everything that can be claimed, one after the other, acked on the way."""
    found = []
    while lease := queue.claim():
        found.append(lease.message.payload)
        queue.ack(lease)
    return found
