"""Whatever is lost on the wire, and whichever process is killed, a job queue loses nothing and adds nothing twice."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
import redis

from rmq_core import JobQueue, Lease, QueueFull
from rmq_core.asyncio import JobQueue as AsyncJobQueue
from rmq_core.asyncio import Worker
from rmq_core.envelope import codec
from rmq_core.jobs import JobsConfig, NewJob
from rmq_core.jobs.state import JobsKeys
from tests.core.worlds import World
from tests.faults import tally
from tests.faults.crew import Member
from tests.faults.lost import Call, Kind, check_each_loss
from tests.faults.patience import PATIENCE_S, eventually
from tests.faults.proxy import Fault, Proxy
from tests.servers import Server

CONFIG = JobsConfig(max_attempts=2, lease=30)
MANY = 2001  # three chunks of all operations but a claim
LARGE = 8001  # three chunks of a claim


def held(count: int) -> Callable[[Any], Lease]:
    def prepare(queue: Any) -> Lease:
        queue.publish_many([f"m{number}" for number in range(count + 2)])
        lease: Lease = queue.claim(max_messages=count, lease_id="job")
        assert lease.count == count
        return lease

    return prepare


def dead(queue: Any) -> None:
    for _ in range(3):
        queue.add("j", attempts=1)
    assert queue.nack(queue.claim(max_messages=3)).dead == 3


def ready(queue: Any) -> None:
    queue.publish_many(["a", "b", "c"])


def nothing(queue: Any) -> None:
    del queue


OPERATIONS: dict[str, Call] = {
    "add": (nothing, lambda queue, _: queue.add("j", 1)[1:]),
    "add with an id": (nothing, lambda queue, _: queue.add("j", 1, job_id="a")),
    "add delayed": (nothing, lambda queue, _: queue.add("j", 1, delay=60, job_id="a")),
    "add unique": (nothing, lambda queue, _: queue.add_unique("j", 1, job_id="a")),
    "add a duplicate": (
        lambda queue: queue.add_unique("j", 0, job_id="a"),
        lambda queue, _: queue.add_unique("j", 1, job_id="a"),
    ),
    "add many": (nothing, lambda queue, _: len(queue.add_bulk(NewJob("j", n) for n in range(MANY)))),
    "publish many": (nothing, lambda queue, _: queue.publish_many([str(n) for n in range(MANY)])[:3]),
    "cancel": (lambda queue: queue.add("j", delay=60, job_id="a"), lambda queue, _: queue.cancel_delayed("a")),
    "cancel a ready job": (
        lambda queue: queue.add("j", job_id="a"),
        lambda queue, _: queue.admin.cancel("a"),
    ),
    "forget": (lambda queue: queue.add_unique("j", job_id="a"), lambda queue, _: queue.admin.forget("a")),
    "claim": (ready, lambda queue, _: queue.claim(max_messages=2)),
    "claim a large lease": (held(3), lambda queue, _: _large(queue)),
    "take over": (held(3), lambda queue, _: queue.claim(lease_id="job")),
    "adopt": (held(3), lambda queue, _: queue.adopt("job", owner="b")),
    "extend": (held(3), lambda queue, lease: queue.extend(lease, 600) is not None),
    "ack": (held(3), lambda queue, lease: queue.ack(lease)),
    "ack some": (held(3), lambda queue, lease: queue.ack(lease, [lease.messages[1]])),
    "nack": (held(3), lambda queue, lease: queue.nack(lease, reason="no")),
    "nack some": (held(3), lambda queue, lease: queue.nack(lease, [lease.messages[1]])),
    "nack chunks for later": (held(MANY), lambda queue, lease: queue.nack(lease, delay=60)),
    "release": (held(MANY), lambda queue, lease: queue.release(lease)),
    "redrive": (dead, lambda queue, _: queue.admin.redrive()),
    "purge": (dead, lambda queue, _: queue.admin.purge("dead")),
}


def _large(queue: Any) -> int:
    queue.publish_many([str(number) for number in range(LARGE)])
    return int(queue.claim(max_messages=LARGE).count)


def comparable(result: Any) -> Any:
    """Return what a call returned or raised, without what differs between runs."""
    if isinstance(result, Lease):
        return result.id.startswith("~") or result.id, result.count, result.takeovers
    return type(result) if isinstance(result, Exception) else result


def snapshot(client: redis.Redis, name: str) -> dict[str, Any]:
    """Return everything relevant in a queue."""
    keys = JobsKeys(name)
    envelopes = {
        "ready": [fields[b"e"] for _, fields in client.xrange(keys.ready)],
        "later": sorted(client.hgetall(keys.later).values(), key=_shape),
        "dead": client.lrange(keys.dead, 0, -1),
    }
    found: dict[str, Any] = {what: [_shape(one) for one in each] for what, each in envelopes.items()}
    heads = [head.split(b" ")[1:4] for head in client.hgetall(keys.heads).values()]
    pending = client.xpending(keys.ready, "jobs")["pending"]
    markers = len(list(client.scan_iter(keys.prefix + b"unique:*")))
    return found | {"delayed": client.zcard(keys.delayed), "heads": heads, "pending": pending, "unique": markers}


def _shape(envelope: bytes) -> tuple[int, bytes, int]:
    parts = codec.split(envelope)
    return parts.deliveries, parts.payload, parts.history.count(b"\n")


KIND = Kind("jobs", lambda _: CONFIG, comparable, snapshot, first=methodcaller("stats"))


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_call_has_its_effect_once_whatever_message_is_lost(world: World, wire: Proxy, name: str) -> None:
    check_each_loss(world, wire, KIND, OPERATIONS[name])


async def test_a_worker_whose_replies_are_lost_loses_no_job(client: redis.Redis, wire: Proxy) -> None:
    seen: Counter[int] = Counter()

    async def handler(job: Any) -> None:
        if job.data % 10 == 0 and job.attempt == 1:
            raise ValueError("once")
        seen[job.data] += 1

    async with AsyncJobQueue(wire.url, "q", JobsConfig(lease=0.5)) as queue:
        await queue.add_bulk(NewJob("j", number) for number in range(400))
        async with Worker(queue, handler):
            for fault in (Fault.REPLY_LOST, Fault.REQUEST_LOST, Fault.REPLY_LOST):
                wire.cut(fault, 1)
                await asyncio.sleep(0.1)
            async with asyncio.timeout(PATIENCE_S):
                while len(seen) < 400 or sum((await queue.stats())[:3]):
                    await asyncio.sleep(0.05)
    assert client.llen(JobsKeys("q").dead) == 0


def test_killed_workers_lose_no_job(
    own_server: Server, client: redis.Redis, tmp_path: Path, *, full_faults: bool
) -> None:
    total, kills = (20_000, 60) if full_faults else (1_500, 6)
    numbers = itertools.count()
    with ExitStack() as ends, JobQueue(own_server.url, "q") as queue:

        def hire() -> Member:
            return ends.enter_context(Member("jobs_worker", own_server.url, str(tmp_path / str(next(numbers)))))

        crew = [hire(), hire()]
        queue.add_bulk(NewJob("j", number) for number in range(total))
        for _ in range(kills):
            time.sleep(random.uniform(0.1, 0.3))
            place = random.randrange(len(crew))
            crew[place].kill()
            crew[place] = hire()
        eventually(lambda: sum(queue.stats()[:3]) == 0)
        assert queue.stats().dead == 0
    done = Counter(line for path in tmp_path.iterdir() for line in path.read_text().split())
    tally.count("job done again after its worker was killed", sum(done.values()) - total)
    assert set(done) == {str(number) for number in range(total)}


async def test_a_full_server_refuses_new_jobs_and_drains_to_empty(own_server: Server, client: redis.Redis) -> None:
    seen: set[int] = set()

    async def handler(job: Any) -> None:
        if job.data == 5 and job.attempt == 1:
            raise ValueError("once")
        seen.add(job.data)

    with JobQueue(own_server.url, "q") as queue:
        queue.add_bulk(NewJob("j", number) for number in range(20))
        expired = queue.claim(max_messages=2)
        client.zadd(JobsKeys("q").leases, {expired.id: 1})  # type: ignore[union-attr]
        held = queue.claim(max_messages=3)
        client.config_set("maxmemory", 1)
        tally.count("server out of memory")
        try:
            with pytest.raises(QueueFull):
                queue.add("j", 99)
            queue.extend(held)  # type: ignore[arg-type]
            queue.nack(held)  # type: ignore[arg-type]
            async with AsyncJobQueue(own_server.url, "q") as fresh, Worker(fresh, handler):
                async with asyncio.timeout(PATIENCE_S):
                    while sum((await fresh.stats())[:3]):
                        await asyncio.sleep(0.02)
        finally:
            client.config_set("maxmemory", 0)
    assert seen == set(range(20))
