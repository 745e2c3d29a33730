"""The history of the disciplines `jobs`, `reliable` and `rotation`, and of workers: what is counted, what not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rmq_core import DISCIPLINES, LeaseLost, RotationQueue, UnrecoverableError
from rmq_core.asyncio import AsyncJobQueue, Worker
from rmq_core.history import EVENTS, acting_as
from rmq_core.jobs import Every, JobsConfig, Repeat, WorkerConfig
from rmq_core.reliable import ReliableConfig
from rmq_core.rotation import RotationConfig
from tests.redis.leases import engine_of
from tests.redis.worlds import World

MEASURES = {*EVENTS, "ready", "oldest_age", "wait", "processing"}


def counted(queue: Any) -> dict[str, int]:
    """Return the counts of the queue that are not 0."""
    engine_of(queue).tally.next_at = 0  # as if a second had passed
    queue.peek()
    totals = queue.totals()
    return {name: getattr(totals, name) for name in EVENTS if getattr(totals, name)}


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_what_a_discipline_cannot_count_is_named_and_stays_zero(world: World, discipline: str) -> None:
    queue = world.open(discipline, "q")
    own = getattr(queue, "inner", queue)
    assert own.uncounted < MEASURES
    payload: Any = "x" if discipline == "rotation" else {"n": 1}
    for _ in range(3):
        queue.publish(payload)
    held = queue.claim(max_messages=2)
    queue.nack(held)
    queue.ack(queue.claim())
    assert not counted(queue).keys() & own.uncounted
    (point,) = queue.history(minutes=1)
    assert (point.ready is None) == ("ready" in own.uncounted)
    assert (point.oldest_age is None) == ("oldest_age" in own.uncounted)
    assert (point.wait.count == 0) == ("wait" in own.uncounted)
    assert point.processing.count == 3


def test_a_reliable_queue_counts_deliveries_failures_and_what_reapers_take_back(world: World) -> None:
    queue = world.open("reliable", "q", ReliableConfig(max_deliveries=2, timeout=60))
    queue.publish_many([*"abcd"])
    queue.ack(queue.claim())
    queue.release(queue.claim())
    for _ in range(2):
        queue.nack(queue.claim(), reason="no")
    lost = queue.claim()
    key = next(name for name in world.client.keys("rmq:reliable:{q}:claims:*"))
    for field, claim in world.client.hgetall(key).items():
        world.client.hset(key, field, claim.split()[0] + b" 1 0")
    assert queue.reap().returned == 1
    with pytest.raises(LeaseLost):
        queue.ack(lost)
    with acting_as("alice"):
        assert queue.redrive() == 1
    assert counted(queue) == {
        "published": 4, "claimed": 5, "acked": 1, "released": 1, "nacked": 2, "dead": 1, "reclaimed": 1, "lost": 1,
        "redriven": 1,
    }  # fmt: skip
    (point,) = queue.history(minutes=1)
    assert (point.ready, point.ready_max) == (queue.stats().ready, 4)
    assert point.wait.count == 4  # of a, of b twice, because a release counts no delivery, and of c
    assert 0 <= point.oldest_age < 60
    assert [(mark.kind, mark.text, mark.by) for mark in queue.marks()] == [("redrive", "1", "alice")]


def test_the_oldest_message_of_a_reliable_queue_is_the_one_that_is_claimed_next(world: World) -> None:
    queue = world.open("reliable", "q")
    queue.publish_many(["old", "new"])
    old = world.client.rpop("rmq:reliable:{q}:queue")
    count, at, rest = old.split(b" ", 2)
    world.client.rpush("rmq:reliable:{q}:queue", b" ".join((count, b"%d" % (int(at) - 50_000), rest)))
    queue.publish("newer")
    counted(queue)
    (point,) = queue.history(minutes=1)
    assert 50 <= point.oldest_age_max < 60


def test_a_rotation_queue_counts_pops_and_late_ids(world: World) -> None:
    queue = world.open("rotation", "q", RotationConfig(timeout=1))
    for each in "abc":
        queue.push(each)
    first = queue.safe_pop()
    assert queue.mark_done(first)
    assert not queue.mark_done("unknown")
    held = queue.claim(max_messages=2)
    stamped = [entry for entry in world.client.lrange("q", 0, -1) if b"|" in entry]
    assert len(stamped) >= 2
    for place, entry in enumerate(world.client.lrange("q", 0, -1)):
        world.client.lset("q", place, entry.partition(b"|")[0] + b"|1000000000")
    late = queue.claim()
    with pytest.raises(LeaseLost):
        queue.release(held)
    queue.ack(late)
    assert counted(queue) == {"published": 3, "claimed": 4, "reclaimed": 1, "acked": 2, "lost": 2}
    queue.purge("ready")
    assert [mark.kind for mark in queue.marks()] == ["purge"]


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
    queue.expire_lease("gone")
    with acting_as("alice"):
        queue.redrive()
        queue.purge("dead")
        queue.pause()
        queue.resume()
    assert counted(queue) == {
        "published": 5, "duplicates": 1, "claimed": 5, "taken_over": 1, "nacked": 4, "dead": 2, "reclaimed": 1,
        "redriven": 2,
    }  # fmt: skip
    (point,) = queue.history(minutes=1)
    assert point.ready == queue.stats().ready
    assert [mark.kind for mark in queue.marks()] == ["redrive", "purge", "pause", "resume"]


def test_ready_jobs_of_a_paused_queue_are_counted(world: World) -> None:
    queue = world.open("jobs", "q")
    queue.publish_many([*"abc"])
    queue.claim()
    queue.pause()
    counted(queue)
    (point,) = queue.history(minutes=1)
    assert (point.ready, point.oldest_age is not None) == (2, True)


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
        totals = await queue.totals()
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
        totals = await queue.totals()
        assert (totals.claimed, totals.reclaimed, totals.acked) == (1, 1, 1)


@pytest.mark.parametrize(
    ("discipline", "config"),
    [
        ("jobs", JobsConfig(history=False)),
        ("reliable", ReliableConfig(history=False)),
        ("rotation", RotationConfig(history=False)),
    ],
)
def test_a_client_whose_history_is_off_counts_nothing(world: World, discipline: str, config: Any) -> None:
    queue = world.open(discipline, "q", config)
    queue.publish("x")
    queue.ack(queue.claim())
    queue.purge("ready")
    queue.close()
    assert not [key for key in world.client.keys("*") if key.endswith(b":history")]
    assert RotationQueue.capabilities.history
