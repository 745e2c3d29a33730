"""Workers of a paused queue: also those that wait in Redis, and those that could take over the jobs of others."""

from __future__ import annotations

import asyncio

import pytest
import redis

from rmq_core import UnrecoverableError
from rmq_core.jobs import Job
from rmq_core.jobs import worker as operations
from rmq_core.policy import Breaker
from tests.core.jobs.bench import KEYS, Log, hung, queue_at, working


@pytest.fixture
def url(server_url: str, redis_client: redis.Redis) -> str:
    """A server with an empty database."""
    del redis_client
    return server_url


async def test_a_worker_that_waits_gets_nothing_that_is_added_to_a_paused_queue(
    url: str, redis_client: redis.Redis
) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append(job.data)

    async with queue_at(url) as queue, working(queue, handler):
        await log.until(lambda: redis_client.info("clients")["blocked_clients"] >= 1)
        await queue.admin.pause()
        await queue.add_bulk({"name": "j", "data": number} for number in range(3))
        await queue.add("j", "later", delay=0.01)
        await log.until(lambda: not redis_client.zcard(KEYS.delayed))
        await asyncio.sleep(0.2)
        assert log.seen == []
        assert (await queue.stats()).ready == 4
        await queue.admin.resume()
        await log.count(4)
    assert sorted(map(str, log.seen)) == ["0", "1", "2", "later"]
    assert redis_client.xlen(KEYS.ready) == 0


async def test_jobs_of_a_silent_worker_stay_where_they_are_while_the_queue_is_paused(url: str) -> None:
    async with queue_at(url, lease=0.05) as queue:
        await queue.add("j", 1)
        await hung(queue)
        await queue.admin.pause()
        await asyncio.sleep(0.1)  # the lease of the silent worker ends by the server's clock
        assert await queue.claim() is None
        found = await queue.run_exchange(operations.turn(queue.engine, "other", operations.Done.nothing(), 10))
        assert found == []
        assert (await queue.run_exchange(operations.listen(queue.engine, "other", 10, 20))) == []
        if not queue.engine.native:
            assert (await queue.run_exchange(operations.steal(queue.engine, "other", "0-0", 10)))[1] == []
        await queue.admin.resume()
        assert (await queue.claim()).message.payload == 1


async def test_a_worker_that_starts_on_a_paused_queue_waits_for_its_resumption(url: str) -> None:
    log = Log()

    async def handler(job: Job) -> None:
        log.seen.append(job.data)

    async with queue_at(url) as queue:
        await queue.add("j", 1)
        await queue.admin.pause()
        async with working(queue, handler):
            await log.until(lambda: queue.engine.paused)
            assert log.seen == []
            await queue.admin.resume()
            await log.count(1)


async def test_a_worker_whose_jobs_die_stops_by_the_breaker_and_goes_on_after_a_resume(url: str) -> None:
    log, bad = Log(), True

    async def handler(job: Job) -> None:
        log.seen.append(job.data)
        if bad:
            raise UnrecoverableError("bad deploy")

    async with queue_at(url, pause_after_dead=Breaker(3, 60)) as queue:
        async with working(queue, handler, concurrency=1, prefetch=0):
            await queue.add_bulk({"name": "j", "data": number} for number in range(8))
            await log.until(lambda: queue.engine.paused)
            assert log.seen == [0, 1, 2]
            await asyncio.sleep(0.1)
            assert log.seen == [0, 1, 2]
            await log.until(queue.admin.marks)  # a worker sends what it counts once a second
            (mark,) = await queue.admin.marks()
            assert (mark.by, mark.text) == ("breaker", "3 dead letters within 1 minute")
            bad = False
            await queue.admin.resume()
            await log.count(8)
        assert (await queue.stats()).dead == 3
