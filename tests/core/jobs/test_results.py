"""Results: stored for a limited time, awaited without polling, and distinguished from no result."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import redis

from rmq_core import UnrecoverableError
from rmq_core.errors import JobFailed
from rmq_core.jobs import Job, JobResult
from tests.core.jobs.bench import KEYS, queue_at, working
from tests.core.leases import PATIENCE_S


@pytest.fixture
def url(server_url: str, redis_client: redis.Redis) -> str:
    """A server with an empty database."""
    del redis_client
    return server_url


async def echo(job: Job) -> Any:
    await asyncio.sleep(0.05)
    return job.data


@pytest.mark.parametrize("value", [None, 0, "text", {"a": [1]}])
async def test_a_waiter_gets_the_return_value_of_the_handler_including_none(url: str, value: Any) -> None:
    seen = asyncio.Event()

    async def echo_later(job: Job) -> Any:
        await seen.wait()
        return job.data

    async with queue_at(url) as queue, working(queue, echo_later, store_results=True):
        job = await queue.add("j", value)
        assert await queue.get_result(job) is None
        seen.set()
        assert await queue.wait_for_result(job, PATIENCE_S) == value
        assert await queue.get_result(job.id) == JobResult(value)


async def test_any_number_of_waiters_get_the_result(url: str) -> None:
    async with queue_at(url) as queue, working(queue, echo, store_results=True):
        job = await queue.add("j", 5)
        assert await asyncio.gather(*(queue.wait_for_result(job, PATIENCE_S) for _ in range(5))) == [5] * 5
        assert await queue.wait_for_result(job, PATIENCE_S) == 5


async def test_waiting_does_not_poll(url: str, redis_client: redis.Redis) -> None:
    async with queue_at(url) as queue:
        job = await queue.add("j")
        waiting = asyncio.create_task(queue.wait_for_result(job, PATIENCE_S))
        await asyncio.sleep(0.1)
        redis_client.config_resetstat()
        began = time.monotonic()
        await asyncio.sleep(0.5)
        asked = redis_client.info("commandstats").get("cmdstat_xread", {}).get("calls", 0)
        assert asked <= 1 + (time.monotonic() - began) // 5
        async with working(queue, echo, store_results=True):
            await waiting


async def test_a_waiter_learns_that_its_job_is_a_dead_letter(url: str) -> None:
    async def handler(job: Job) -> None:
        raise UnrecoverableError("never")

    async with queue_at(url) as queue, working(queue, handler, store_results=True):
        job = await queue.add("j")
        with pytest.raises(JobFailed, match="never") as failed:
            await queue.wait_for_result(job, PATIENCE_S)
        assert failed.value.job_id == job.id
        assert (await queue.get_result(job)) == JobResult(None, "UnrecoverableError: never")


async def test_a_waiter_times_out_with_a_hint(url: str) -> None:
    async with queue_at(url) as queue:
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="store_results"):
            await queue.wait_for_result("nobody", 0.2)
        assert time.monotonic() - began > 0.15


async def test_results_are_kept_for_their_time_only(url: str, redis_client: redis.Redis) -> None:
    async with queue_at(url, result_ttl=100) as queue, working(queue, echo, store_results=True):
        job = await queue.add("j", 1)
        await queue.wait_for_result(job, PATIENCE_S)
        assert 90_000 < redis_client.pttl(KEYS.result(job.id)) <= 100_000


async def test_a_return_value_that_cannot_be_kept_fails_its_job(url: str) -> None:
    async def handler(job: Job) -> Any:
        return object()

    async with queue_at(url, max_attempts=1) as queue, working(queue, handler, store_results=True):
        job = await queue.add("j")
        with pytest.raises(JobFailed, match="PayloadError"):
            await queue.wait_for_result(job, PATIENCE_S)
