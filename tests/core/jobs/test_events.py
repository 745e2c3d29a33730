"""Tests of job events: a stream records each step of a job, and any client may read it."""

from __future__ import annotations

import asyncio

import pytest
import redis

from rmq_core import exponential
from rmq_core.jobs import Job
from tests.core.jobs.bench import KEYS, Log, queue_at, working


@pytest.fixture
def url(server_url: str, redis_client: redis.Redis) -> str:
    """A server with an empty database."""
    del redis_client
    return server_url


async def test_the_events_of_a_job_can_be_followed(url: str) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        if job.attempt == 1:
            raise ValueError("no")

    async def follow(position: str) -> None:
        async for event in watcher.events(position):
            log.seen.append((event.event, event.job_id))

    async with queue_at(url, backoff=exponential(0.01, 0.01, 0)) as queue, queue_at(url) as watcher:
        following = asyncio.create_task(follow(await watcher.events_position()))
        async with working(queue, handler):
            await queue.add("j", job_id="a", delay=0.01)
            await log.until(lambda: ("completed", "a") in log.seen)
        following.cancel()
    assert [event for event, _ in log.seen] == [
        "delayed", "waiting", "active", "failed", "retry", "waiting", "active", "completed"
    ]  # fmt: skip


async def test_events_are_capped_and_can_be_switched_off(url: str, redis_client: redis.Redis) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append(job)

    async with queue_at(url, max_events=0) as queue, working(queue, handler):
        await queue.add_bulk({"name": "j", "delay": 0.001} for _ in range(50))
        await log.count(50)
        assert redis_client.exists(KEYS.events) == 0
    async with queue_at(url, max_events=100) as queue:
        for _ in range(400):
            await queue.add("j", delay=60)
        assert redis_client.xlen(KEYS.events) <= 200
