"""A reliable queue whose server is killed or full: nothing is lost, and messages held by workers can be drained."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from rmq_core import QueueFull
from rmq_core.reliable import ReliableConfig
from tests.core.reliable.bench import KEYS, age, payloads
from tests.core.worlds import World
from tests.faults import tally
from tests.faults.patience import PATIENCE_S
from tests.servers import Server, start_server


def test_messages_held_by_workers_survive_a_kill_of_redis(world: World, own_server: Server) -> None:
    server = start_server(own_server.name, "--appendonly", "yes", "--appendfsync", "always")
    try:
        queue = world.open("reliable", config=ReliableConfig(worker="w"), settings=server.url)
        queue.publish_many(["a", "b", "c"])
        held, dead = queue.claim(), queue.claim()
        server.kill9()
        tally.count("server killed")
        server.restart()
        assert queue.ack(held).settled == 1
        with server.client() as client:
            client.hset(KEYS.claims("w"), dead.message.id, f"{dead.token} 1 0")
        assert queue.reap().returned == 1
        assert payloads(queue.admin.peek(5)) == ["b", "c"]
    finally:
        queue.close()
        server.stop()


@pytest.fixture
def full(client: redis.Redis) -> Iterator[redis.Redis]:
    """A server that is full until the end of the test."""
    client.config_set("maxmemory-policy", "noeviction")
    yield client
    client.config_set("maxmemory", 0)


def fill(client: redis.Redis) -> None:
    client.config_set("maxmemory", 1)
    tally.count("server out of memory")
    with pytest.raises(redis.OutOfMemoryError):
        client.set("anything", "x")


def test_a_full_server_refuses_calls_that_need_memory_and_drains(world: World, full: redis.Redis) -> None:
    queue: Any = world.open("reliable", config=ReliableConfig(worker="w", max_deliveries=2))
    queue.publish_many(str(number) for number in range(20))
    for _ in range(2):
        queue.nack(queue.claim())
    queue.claim(max_messages=5)
    age(world)
    fill(full)
    for refused in (lambda: queue.publish("x"), queue.admin.redrive):
        with pytest.raises(QueueFull):
            refused()
    assert queue.reap().returned == 5
    one, other = queue.claim(), queue.claim()
    assert queue.extend(one)
    assert (queue.nack(one).settled, queue.release(other).settled) == (1, 1)
    while lease := queue.claim(max_messages=7):
        queue.ack(lease)
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_waiting_on_a_full_server_neither_spins_nor_misses_a_message(world: World, full: redis.Redis) -> None:
    queue: Any = world.open("reliable", config=ReliableConfig(worker="w"))
    queue.publish("a")
    lease = queue.claim()
    fill(full)
    full.config_resetstat()
    began = time.monotonic()
    waiting = world.in_background(queue.claim, wait=PATIENCE_S)
    time.sleep(0.6)
    calls = full.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert calls <= 3 + 4 * (time.monotonic() - began)
    queue.release(lease)
    assert waiting.result(PATIENCE_S).message.payload == "a"
