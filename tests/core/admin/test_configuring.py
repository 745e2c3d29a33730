"""Settings stored with a queue in the disciplines that follow them besides `leased`, with the same mechanism."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from rmq_core import ConfigurationError, JobQueue
from rmq_core.asyncio import JobQueue as AsyncJobQueue
from rmq_core.jobs import JobsConfig
from rmq_core.kernel.settings import storable
from rmq_core.reliable import ReliableConfig
from tests.core.jobs.bench import working
from tests.core.leases import eventually, eventually_later
from tests.core.worlds import World

ABLE = ("jobs", "leased", "reliable")


@pytest.fixture
def url(server_url: str, redis_client: redis.Redis) -> str:
    del redis_client
    return server_url


@pytest.mark.parametrize("discipline", ABLE)
def test_a_queue_is_configured_before_its_first_message_and_is_listed_then(world: World, discipline: str) -> None:
    queue = world.open(discipline)
    queue.admin.configure(max_dead=5)
    assert world.open(discipline).admin.settings().stored == {"max_dead": 5}
    assert world.client.sismember("rmq:queues", "q")
    with pytest.raises(ConfigurationError, match="retry_budget is each program's own"):
        queue.admin.configure(retry_budget=5)


@pytest.mark.parametrize("discipline", ABLE)
def test_each_setting_that_can_be_stored_is_stored_as_its_default_and_read_back(world: World, discipline: str) -> None:
    own = getattr(world.open(discipline), "inner", world.open(discipline)).config
    defaults = {name: getattr(own, name) for name in storable(own)}
    assert world.open(discipline).admin.configure(**defaults).stored == defaults
    assert world.open(discipline).admin.settings().in_force == defaults


def test_stored_attempts_of_jobs_decide_for_claims_and_reclaims(world: World) -> None:
    world.open("jobs").admin.configure(max_attempts=1, unique_ttl="2h")
    queue = world.open("jobs", config=JobsConfig(max_attempts=9))
    queue.publish({"n": 1})
    queue.nack(queue.claim())
    assert queue.stats().dead == 1
    queue.publish({"n": 2})
    assert queue.claim(lease_id="job")
    world.client.zadd("rmq:{q}:jobs:leases", {"job": 1}, xx=True)
    world.open("jobs", config=JobsConfig(max_attempts=9)).backlog()
    assert queue.stats().dead == 2


async def test_a_running_worker_follows_what_is_changed(url: str) -> None:
    async def fails(_: Any) -> None:
        raise ValueError

    with JobQueue(url, "q") as operator:
        operator.admin.configure(backoff="exponential 0 0 0", max_attempts=2)
        async with AsyncJobQueue(url, "q", JobsConfig(max_attempts=9)) as queue, working(queue, fails):
            operator.publish({"n": 1})
            await eventually_later(lambda: _dead(operator, 1))
            assert len(operator.admin.dead_letters()[0].history) == 2
            operator.admin.configure(max_attempts=1)
            await eventually_later(lambda: _follows(queue, 1))
            operator.publish({"n": 2})
            await eventually_later(lambda: _dead(operator, 2))
        assert [len(letter.history) for letter in operator.admin.dead_letters()] == [1, 2]


async def _dead(queue: Any, count: int) -> bool:
    return bool(queue.stats().dead == count)


async def _follows(queue: Any, attempts: int) -> bool:
    return bool(queue.engine.config.max_attempts == attempts)


def test_whoever_reaps_a_reliable_queue_the_stored_settings_decide(world: World) -> None:
    world.open("reliable").admin.configure(max_deliveries=1, timeout="1ms")
    holder = world.open("reliable", config=ReliableConfig(max_deliveries=9, timeout=3600))
    holder.publish("x")
    assert holder.claim()
    reaper = world.open("reliable", config=ReliableConfig(max_deliveries=None, timeout=3600))
    eventually(lambda: reaper.reap().dead == 1)
