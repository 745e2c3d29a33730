"""A server at `maxmemory` refuses new entries and lets consumers drain the stored ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from rmq_core import QueueFull
from rmq_core.errors import QueueError
from rmq_core.streams import QueueConfig
from tests.core.worlds import World


@pytest.fixture
def full(client: redis.Redis) -> Iterator[redis.Redis]:
    """A server that is full once the test calls `full.config_set("maxmemory", 1)`; the limit is removed afterwards."""
    client.config_set("maxmemory-policy", "noeviction")
    yield client
    client.config_set("maxmemory", 0)


def opened(world: World) -> Any:
    return world.open("streams", "q", QueueConfig.named("q", block_ms=50))


def test_a_call_that_needs_memory_is_refused_as_a_whole(world: World, full: redis.Redis) -> None:
    opened(world).publish({"n": 0})
    full.config_set("maxmemory", 1)
    queue = opened(world)
    with pytest.raises(QueueFull):
        queue.publish_many([{"n": 1}, {"n": 2}])
    with pytest.raises(QueueError) as raised:
        queue.enqueue({"n": 1})
    assert isinstance(raised.value.__cause__, QueueFull)
    assert full.xlen("rmq:{q}:stream") == 1


def test_new_consumers_drain_a_full_server(world: World, full: redis.Redis) -> None:
    opened(world).publish_many({"n": number} for number in range(10))
    full.config_set("maxmemory", 1)
    queue = opened(world)
    lease = queue.claim(max_messages=3)
    queue.extend(lease)
    queue.nack(lease)
    message = queue.read()[0]
    assert queue.ack(message).settled == 1
    lease = queue.claim(max_messages=99)
    queue.release(lease, lease.messages[:1])
    queue.ack(lease)
    lease = queue.claim(max_messages=99)
    assert queue.ack(lease).settled == 4
    assert queue.claim(wait=0.05) is None
    assert queue.stats()[:4] == (0, 0, 0, 0)
    assert queue.trim() == 10
