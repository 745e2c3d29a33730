"""How long a nacked message is delayed: by the nack's own delay, or by the queue's backoff."""

from __future__ import annotations

import pytest

from rmq_core import LeasedConfig, exponential
from rmq_core.envelope.codec import message_of
from tests.core.leases import drain, fall_due, key
from tests.core.worlds import World


def test_a_nack_may_delay_the_next_delivery(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"ab"])
    queue.nack(queue.claim(), delay=60)
    assert drain(queue) == ["b"]
    assert queue.stats()[:2] == (0, 1)
    fall_due(world)
    assert queue.claim().message.deliveries == 2


def test_the_backoff_of_the_queue_delays_a_nack_without_its_own_delay(world: World) -> None:
    queue = world.queue(config=LeasedConfig(backoff=exponential(100, 10_000, jitter=0)))
    queue.publish("x")
    for expected_s in (100, 200, 400):
        fence = queue.claim()
        now = int(world.client.time()[0])
        queue.nack(fence)
        ((_, due),) = world.client.zrange(key("delayed"), 0, -1, withscores=True)
        assert expected_s - 2 <= due / 1000 - now <= expected_s + 10
        fall_due(world)
    queue.nack(queue.claim(), delay=0)
    assert queue.stats().ready == 1


@pytest.mark.parametrize("settled", ["all", "some", "large"])
def test_each_message_waits_after_its_own_deliveries(world: World, settled: str) -> None:
    queue = world.queue(config=LeasedConfig(backoff=exponential(100, 10_000, jitter=0)))
    queue.publish("often")
    for _ in range(4):
        queue.nack(queue.claim(), delay=0)
    queue.publish_many(["first", *(5000 * ["-"] if settled == "large" else [])])
    lease = queue.claim(max_messages=6000)
    refs = [message.ref for message in queue.messages(lease)][:2]
    now = int(world.client.time()[0])
    queue.nack(lease, None if settled == "all" else reversed(refs))
    found = world.client.zrange(key("delayed"), 0, -1, withscores=True)
    waits = {message_of(envelope).payload: round(due / 1000 - now, -2) for envelope, due in found}
    assert waits == {"often": 1600, "first": 100}


def test_a_nack_wakes_the_waiter_that_knows_a_later_due_time(world: World) -> None:
    queue = world.queue(config=LeasedConfig(backoff=exponential(100, 10_000, jitter=0)))
    queue.publish("often")
    for _ in range(4):
        queue.nack(queue.claim(), delay=0)
    queue.publish("first")
    lease = queue.claim(max_messages=2)
    later = int(world.client.time()[0] + 1000) * 1000
    world.client.set(key("timer"), f"{later} other")
    world.client.zadd(key("waiters"), {"other": 2 * later})
    queue.nack(lease, [message.ref for message in lease.messages])
    assert world.client.llen(key("wake")) == 1
