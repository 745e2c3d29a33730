"""What the history of a job queue counts for queue objects and for workers."""

from __future__ import annotations

import asyncio
from typing import Any

from rmq_core import UnrecoverableError
from rmq_core.asyncio import JobQueue as AsyncJobQueue
from rmq_core.asyncio import Worker
from rmq_core.jobs import Every, JobsConfig, Repeat, WorkerConfig
from rmq_core.observe.history import EVENTS, acting_as
from tests.core.leases import engine_of
from tests.core.worlds import World


def counted(queue: Any) -> dict[str, int]:
    """Return the counts of the queue that are not 0."""
    engine_of(queue).tally.next_at = 0  # as if a second had passed
    queue.admin.peek()
    totals = queue.admin.totals()
    return {name: getattr(totals, name) for name in EVENTS if getattr(totals, name)}


def test_a_job_queue_counts_what_leases_do(world: World) -> None:
    queue = world.open("jobs", "q", JobsConfig(max_attempts=2))
    queue.publish_many([str(n) for n in range(3)])
    queue.add_unique("j", job_id="a")
    queue.add_unique("j", job_id="a")
    queue.publish("later", delay=60)
    queue.claim(lease_id="job", max_messages=1)
    taken = queue.claim(lease_id="job")
    queue.nack(taken)
    queue.nack(queue.claim(max_messages=3))
    assert queue.stats().dead == 1
    queue.claim(lease_id="gone")
    queue.admin.expire_lease("gone")
    with acting_as("alice"):
        queue.admin.redrive()
        queue.admin.purge("dead")
        queue.admin.pause()
        queue.admin.resume()
    assert counted(queue) == {
        "published": 5, "duplicates": 1, "claimed": 5, "taken_over": 1, "nacked": 4, "dead": 2, "reclaimed": 1,
        "redriven": 2,
    }  # fmt: skip
    (point,) = queue.admin.history(minutes=1)
    assert point.ready == queue.stats().ready
    assert [mark.kind for mark in queue.admin.marks()] == ["redrive", "purge", "pause", "resume"]


def test_jobs_of_a_schedule_count_as_published(world: World) -> None:
    queue = world.open("jobs", "q")
    queue.upsert_repeatable_job("j", repeat=Repeat(Every(0.001)))
    while not queue.promote().rules:
        pass
    assert counted(queue)["published"] >= 1


async def test_a_worker_counts_its_jobs(redis_client: Any, server_url: str) -> None:
    del redis_client
    outcomes = {"fails": ValueError("no"), "dies": UnrecoverableError("never")}
    runs, ended = [], asyncio.Event()

    async def handle(job: Any) -> None:
        runs.append(job.data)
        if len(runs) == 5:
            ended.set()
        if job.data in outcomes:
            raise outcomes[job.data]

    async with AsyncJobQueue(server_url, "q", JobsConfig(max_attempts=2)) as queue:
        for data in ("a", "b", "fails", "dies"):
            await queue.add("j", data)
        async with Worker(queue, handle, WorkerConfig(concurrency=2)):
            await asyncio.wait_for(ended.wait(), 20)
        totals = await queue.admin.totals()
        assert (totals.published, totals.claimed, totals.acked) == (4, 5, 2)
        assert (totals.nacked, totals.dead) == (3, 2)
        assert (totals.processing.count, totals.wait.count) == (5, 0)


async def test_a_worker_counts_jobs_that_it_took_from_a_dead_one(redis_client: Any, server_url: str) -> None:
    redis_client.xgroup_create("rmq:{q}:jobs:ready", "jobs", "0", mkstream=True)
    async with AsyncJobQueue(server_url, "q", JobsConfig(lease=0.3)) as queue:
        await queue.add("j", 1)
        redis_client.xreadgroup("jobs", "dead", {"rmq:{q}:jobs:ready": ">"})
        done = asyncio.Event()
        async with Worker(queue, lambda _: done.set(), WorkerConfig()):
            await asyncio.wait_for(done.wait(), 20)
        totals = await queue.admin.totals()
        assert (totals.claimed, totals.reclaimed, totals.acked) == (1, 1, 1)
