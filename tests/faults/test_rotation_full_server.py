"""A rotation queue on a full server: pushing is refused as a whole, and the stored ids can be drained."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from rmq_core import QueueFull
from tests.core.rotation.bench import age, entries, rotation
from tests.core.worlds import World
from tests.faults import tally


@pytest.fixture
def full(client: redis.Redis) -> Iterator[redis.Redis]:
    """A server that is full until the end of the test."""
    client.config_set("maxmemory-policy", "noeviction")
    yield client
    client.config_set("maxmemory", 0)


def test_a_full_server_refuses_pushes_and_drains(world: World, full: redis.Redis) -> None:
    queue = rotation(world)
    queue.publish_many(str(number) for number in range(20))
    queue.claim(max_messages=5)
    age(world)
    full.config_set("maxmemory", 1)
    tally.count("server out of memory")
    before = entries(world)
    with pytest.raises(QueueFull):
        queue.publish_many(["x", "y"])
    assert entries(world) == before
    one = queue.claim()
    assert queue.release(one).settled == 1
    popped = list(iter(queue.safe_pop, None))
    assert sorted(map(int, popped)) == list(range(20))
    assert all(queue.mark_done(name) for name in popped)
    assert (queue.safe_pop(), entries(world)) == (None, [])
