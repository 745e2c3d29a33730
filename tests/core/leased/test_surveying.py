"""Tests of queries over many queues of a server: non-empty queues, backlogs, and the removal of empty queues."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
import redis
import redis.asyncio

import rmq_core
import rmq_core.asyncio
from rmq_core import ConfigurationError, LeasedConfig, LeasedQueue
from rmq_core.errors import QueueNotEmpty
from rmq_core.leased.aio import of_each
from rmq_core.leased.inspecting import Overview, overview
from rmq_core.reports import Backlog
from tests.core.worlds import AsyncWorld, World
from tests.servers import Cluster


@pytest.fixture
def call(world: World) -> Callable[..., Any]:
    """Return a public function for the concurrency model of this world, on its server."""

    def run(name: str, *args: Any) -> Any:
        if isinstance(world, AsyncWorld):
            return world.loop.call(getattr(rmq_core.asyncio, name), world.url, *args)
        return getattr(rmq_core, name)(world.url, *args)

    return run


def fill(world: World) -> None:
    """Create queues with one message each in different states, and one that has become empty."""
    world.queue("ready").publish("a")
    world.queue("delayed").publish("a", delay=60)
    world.queue("leased").publish("a")
    world.queue("leased").claim()
    world.queue("empty").publish("a")
    world.queue("empty").ack(world.queue("empty").claim())


def test_of_many_queues_the_nonempty_ones_are_returned_in_the_requested_order(
    world: World, call: Callable[..., Any]
) -> None:
    fill(world)
    asked = ["leased", "empty", "never used", "delayed", "ready"]
    assert call("holding", asked) == ["leased", "delayed", "ready"]
    assert call("holding", []) == []


def test_backlogs_of_many_queues_equal_the_backlog_of_each_queue(world: World, call: Callable[..., Any]) -> None:
    fill(world)
    found = call("backlogs", ["ready", "delayed", "leased", "empty", "never used"])
    assert {name: backlog.ready for name, backlog in found.items()} == {
        "ready": 1, "delayed": 0, "leased": 0, "empty": 0, "never used": 0,
    }  # fmt: skip
    assert found["ready"].oldest_age >= 0
    assert found["never used"] == Backlog(0, None)


async def test_an_overview_of_many_queues_equals_the_numbers_of_each_and_a_broken_queue_hides_none(
    server_url: str,
) -> None:
    with closing(redis.Redis.from_url(server_url)) as client:
        for name in ("working", "late", "broken"):
            with LeasedQueue(client, name) as queue:
                queue.publish_many([*"abc"])
                queue.claim(lease=0.001 if name == "late" else 60)
        client.delete("rmq:{broken}:ready")
        client.set("rmq:{broken}:ready", "foreign")
        client.blpop("nothing", 0.01)  # until the short lease has expired
        expected = {name: LeasedQueue(client, name).stats()[:5] for name in ("working", "late", "unused")}
    configs = dict.fromkeys([*expected, "broken", "{wrong}"], LeasedConfig())
    async with redis.asyncio.Redis.from_url(server_url) as async_client:
        found = await of_each(async_client, configs, overview)
    assert {name: seen.stats[:5] for name, seen in found.items() if isinstance(seen, Overview)} == expected
    assert [name for name, seen in found.items() if isinstance(seen, Overview) and seen.late] == ["late"]
    assert "WRONGTYPE" in str(found["broken"])
    assert isinstance(found["{wrong}"], ConfigurationError)


async def test_on_a_cluster_each_queue_is_read_on_its_own_node() -> None:
    names = [f"q{number}" for number in range(6)]
    with closing(Cluster("7.0")) as cluster:
        for name in names[:3]:
            with rmq_core.LeasedQueue(cluster.url, name) as queue:
                queue.publish("a")
        assert rmq_core.holding(cluster.url, names) == names[:3]
        assert await rmq_core.asyncio.holding(cluster.url, names) == names[:3]
        expected = dict.fromkeys(names[:3], 1) | dict.fromkeys(names[3:], 0)
        for found in (rmq_core.backlogs(cluster.url, names), await rmq_core.asyncio.backlogs(cluster.url, names)):
            assert {name: backlog.ready for name, backlog in found.items()} == expected


def test_expired_leases_are_reclaimed_before_they_are_counted(world: World, call: Callable[..., Any]) -> None:
    for name in ("a", "b"):
        world.queue(name).publish(name)
        world.queue(name).claim(lease=0.03)
    time.sleep(0.1)
    assert [backlog.ready for backlog in call("backlogs", ["a", "b"]).values()] == [1, 1]


def test_counting_ten_thousand_queues_takes_a_few_calls(world: World, call: Callable[..., Any]) -> None:
    names = [f"tenant {number}" for number in range(10_000)]
    for name in names[5_000:5_003]:
        world.queue(name).publish("a")
    world.client.config_resetstat()
    assert call("holding", names) == names[5_000:5_003]
    stats = world.client.info("commandstats")
    assert sum(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"] for command in ("eval", "evalsha")) <= 12


def test_unregister_removes_an_empty_queue_from_the_registry_until_its_next_message(
    world: World, call: Callable[..., Any]
) -> None:
    queue = world.queue("typo")
    queue.publish("a")
    queue.ack(queue.claim())
    queue.admin.unregister()
    assert call("queues") == []
    queue.admin.unregister()
    queue.publish("b")
    assert call("queues") == ["typo"]


@pytest.mark.parametrize(
    ("keep", "held"),
    [
        (lambda queue: None, "1 ready"),
        (lambda queue: queue.claim(max_messages=5), r"1 lease\(s\)"),
        (lambda queue: queue.nack(queue.claim(), reason="broken"), "1 dead, 1 failed"),
        (lambda queue: queue.ack(queue.claim()), "1 completed"),
        (lambda queue: (queue.admin.purge("ready"), queue.publish("b", delay=60)), "1 delayed"),
    ],
    ids=["ready", "leased", "dead", "log", "delayed"],
)
def test_unregister_keeps_a_nonempty_queue_in_the_registry_and_reports_its_contents(
    world: World, call: Callable[..., Any], keep: Callable[[Any], Any], held: str
) -> None:
    queue = world.queue("orders", LeasedConfig(max_deliveries=1, completed_log=9, failed_log=9))
    queue.publish("a")
    keep(queue)
    with pytest.raises(QueueNotEmpty, match=rf"queue 'orders' holds {held}:"):
        queue.admin.unregister()
    assert call("queues") == ["orders"]
