"""Helpers of the tests of job queues: queues on a world, workers on an event loop, and direct inspection of Redis."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import redis

from rmq_core.asyncio import JobQueue as AsyncJobQueue
from rmq_core.asyncio import Worker
from rmq_core.jobs import JobsConfig, WorkerConfig
from rmq_core.jobs.state import JobsKeys
from tests.core.leases import PATIENCE_S
from tests.core.worlds import World

KEYS = JobsKeys("q")


def jobs(world: World, config: JobsConfig | None = None, **options: Any) -> Any:
    """Return the queue `q` of a world."""
    return world.open("jobs", "q", config or (JobsConfig(**options) if options else None))


def payloads(queue: Any) -> list[Any]:
    """Claim and ack everything; return the jobs."""
    found = []
    while lease := queue.claim(max_messages=100):
        found += [message.payload for message in lease.messages]
        queue.ack(lease)
    return found


def native(client: redis.Redis) -> bool:
    """Return whether this server has IDMP, CLAIM and XACKDEL."""
    info = client.info("server")
    return "valkey_version" not in info and tuple(map(int, info["redis_version"].split(".")[:2])) >= (8, 6)


async def answer(value: Any) -> Any:
    """Return a value, awaited if necessary."""
    return await value if inspect.isawaitable(value) else value


class Log:
    """What handlers received, and a way to wait for it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    async def until(self, condition: Callable[[], Any], within_s: float = PATIENCE_S) -> None:
        async with asyncio.timeout(within_s):
            while not await answer(condition()):
                await asyncio.sleep(0.005)

    async def count(self, count: int) -> None:
        await self.until(lambda: len(self.seen) >= count)


@asynccontextmanager
async def queue_at(url: str, **options: Any) -> AsyncIterator[AsyncJobQueue]:
    """The queue `q` on the event loop of the test."""
    async with AsyncJobQueue(url, "q", JobsConfig(**options)) as queue:
        yield queue


@asynccontextmanager
async def working(queue: AsyncJobQueue, handler: Any, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker beside the test."""
    async with Worker(queue, handler, WorkerConfig(**options)) as worker:
        yield worker


async def hung(queue: AsyncJobQueue, count: int = 1) -> None:
    """Deliver jobs to a worker that never returns."""
    from rmq_core.jobs import worker as operations
    from rmq_core.jobs.worker import Done

    found = await queue.run_exchange(operations.turn(queue.engine, "hung", Done.nothing(), count))
    assert len(found) == count
