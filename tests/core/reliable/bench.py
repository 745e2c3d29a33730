"""Helpers of the tests of the reliable discipline: queues, reapers, and expiry at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rmq_core import Reaper
from rmq_core.asyncio import Reaper as AsyncReaper
from rmq_core.reliable import ReliableConfig
from rmq_core.reliable.state import ReliableKeys
from tests.core.leases import PATIENCE_S
from tests.core.worlds import AsyncWorld, Blocking, World

KEYS = ReliableKeys("q")
AN_HOUR_MS = 3_600_000


def worker(world: World, name: str = "w", queue: str = "q", **settings: Any) -> Any:
    """Return a queue object that claims under that name."""
    return world.open("reliable", queue, ReliableConfig(worker=name, **settings))


def reaper(world: World, queue: Any, **settings: Any) -> Any:
    """Return a reaper for this world."""
    if isinstance(world, AsyncWorld):
        return Blocking(AsyncReaper(queue.inner, **settings), world.loop)
    return Reaper(queue, **settings)


@contextmanager
def running(world: World, made: Any) -> Iterator[None]:
    """Run a reaper repeatedly in the background."""
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
    """Move the claim times and deadlines of a worker's messages into the past."""
    key = KEYS.claims(name)
    for field, claim in world.client.hgetall(key).items():
        token, since, until = claim.decode().split(" ")
        later = int(until) and int(until) - ms
        world.client.hset(key, field, f"{token} {int(since) - ms} {later}")


def age_strays(world: World, ms: int = AN_HOUR_MS) -> None:
    """Move the times at which the reaper first saw unclaimed entries into the past."""
    for field, seen in world.client.hgetall(KEYS.strays).items():
        world.client.hset(KEYS.strays, field, int(seen) - ms)


def processing(world: World, name: str = "w") -> list[bytes]:
    """Return the entries of a worker's list, newest first."""
    found: list[bytes] = world.client.lrange(KEYS.processing(name), 0, -1)
    return found


def payloads(messages: Any) -> list[Any]:
    return [message.payload for message in messages]


def drain(queue: Any) -> list[Any]:
    """Claim and ack everything one by one; return the payloads."""
    found = []
    while lease := queue.claim():
        found.append(lease.message.payload)
        queue.ack(lease)
    return found
