"""A job queue checks once what its server supports, and its error names the missing feature."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from rmq_core import JobQueue, Unsupported
from rmq_core.asyncio import Worker
from rmq_core.errors import ScriptFailed, WrongKeyType
from rmq_core.jobs.worker import Delivery, Verdict, fail, requeue
from tests.core.jobs.bench import KEYS, jobs, native, queue_at
from tests.core.leases import engine_of, run
from tests.core.worlds import World
from tests.servers import Server, start_server


@pytest.fixture
def old_server() -> Iterator[Server]:
    """A server without the commands that came with Redis 6.2."""
    server = start_server("7.0", "--rename-command", "XAUTOCLAIM", "")
    yield server
    server.stop()


async def test_a_server_that_is_too_old_is_refused_with_the_missing_command_and_a_worker_raises_too(
    old_server: Server,
) -> None:
    async with queue_at(old_server.url) as queue:
        with pytest.raises(Unsupported, match=r"XAUTOCLAIM: it needs Redis 6\.2"):
            await queue.add("j")
        with pytest.raises(Unsupported, match="XAUTOCLAIM"):
            await Worker(queue, print).run()


@pytest.mark.everywhere
def test_features_of_a_newer_server_are_used(world: World) -> None:
    queue = jobs(world)
    queue.add("j")
    world.client.config_resetstat()
    queue.add("j")
    queue.ack(queue.claim())
    stats = set(world.client.info("commandstats"))
    assert ("cmdstat_xackdel" in stats) == native(world.client)
    assert ("cmdstat_xack" in stats) != native(world.client)


@pytest.mark.everywhere
def test_a_job_is_requeued_or_failed_once(world: World) -> None:
    queue = jobs(world)
    queue.add("j")

    def taken() -> Delivery:
        ((_, ((entry, _),)),) = world.client.xreadgroup("jobs", "w", {KEYS.ready: ">"})
        return Delivery(entry.decode(), b"")

    engine, first = engine_of(queue), taken()
    assert [run(world, queue, next(requeue(engine, "w", [first]))) for _ in range(2)] == [1, 0]
    second, verdict = taken(), Verdict(1, 60, "why")
    assert [run(world, queue, next(fail(engine, "w", second, "id", verdict))) for _ in range(2)] == [b"later", b"gone"]
    assert queue.stats()[:3] == (0, 1, 0)


def test_a_key_of_another_type_is_reported_and_left_alone(world: World) -> None:
    world.client.set(KEYS.ready, "something else")
    with pytest.raises(WrongKeyType):
        jobs(world).add("j")
    assert world.client.get(KEYS.ready) == b"something else"


def test_a_command_that_the_user_may_not_run_is_reported(world: World) -> None:
    world.client.acl_setuser("limited", enabled=True, nopass=True, keys=["*"], categories=["+@all"],
                             commands=["-xgroup"])  # fmt: skip
    try:
        with JobQueue(world.url.replace("redis://", "redis://limited:x@"), "q") as queue, pytest.raises(ScriptFailed):
            queue.add("j")
    finally:
        world.client.acl_deluser("limited")


async def test_a_worker_reports_why_it_cannot_work(server_url: str, redis_client: redis.Redis) -> None:
    redis_client.set(KEYS.ready, "something else")
    async with queue_at(server_url) as queue:
        with pytest.raises(WrongKeyType):
            await Worker(queue, print).run()
