"""A server at `maxmemory`: calls that need memory are refused as a whole, calls that free memory still work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmq_core import LeasedConfig, Overflow, QueueFull
from tests.redis.leases import PATIENCE_S, blocked, drain, expire, fall_due, payloads, snapshot
from tests.redis.worlds import World


@pytest.fixture
def full(world: World) -> Iterator[World]:
    """Prepare the queue and call `fill(world)`; afterwards the server has room again."""
    yield world
    world.client.config_set("maxmemory", 0)


def fill(world: World) -> None:
    """Let the server reach its memory limit."""
    world.client.config_set("maxmemory-policy", "noeviction")
    world.client.config_set("maxmemory", 1)


def test_publishing_is_refused_as_a_whole_and_works_again_when_there_is_memory(full: World) -> None:
    queue = full.queue()
    queue.publish("before")
    fill(full)
    before = snapshot(full.client)
    for options in ({}, {"delay": 60}, {"dedup_key": lambda payload: payload}):
        with pytest.raises(QueueFull, match="maxmemory"):
            queue.publish("x", **options)
        with pytest.raises(QueueFull) as refused:
            queue.publish_many(map(str, range(2_500)), **options)
        assert refused.value.report.accepted == 0
    assert snapshot(full.client) == before
    full.client.config_set("maxmemory", 0)
    assert queue.publish("x", dedup_key=lambda payload: payload).accepted
    assert drain(queue) == ["before", "x"]


def test_dropping_the_oldest_does_not_bypass_a_full_server(full: World) -> None:
    queue = full.queue(config=LeasedConfig(max_ready=1, overflow=Overflow.DROP_OLDEST))
    queue.publish("before")
    fill(full)
    for delay in (0, 60):
        with pytest.raises(QueueFull, match="maxmemory"):
            queue.publish("x", delay=delay)
    assert drain(queue) == ["before"]


def test_the_first_publish_of_a_queue_is_refused_too(full: World) -> None:
    fill(full)
    with pytest.raises(QueueFull):
        full.queue().publish("x")
    assert snapshot(full.client) == {}


def test_redriving_is_refused_as_a_whole(full: World) -> None:
    queue = full.queue(config=LeasedConfig(max_deliveries=1))
    queue.publish_many([*"abc"])
    queue.nack(queue.claim(max_messages=3))
    fill(full)
    before = snapshot(full.client)
    with pytest.raises(QueueFull):
        queue.admin.redrive()
    assert snapshot(full.client) == before
    assert queue.admin.purge("dead") == 3


def test_a_full_server_with_dead_consumers_drains_to_empty(full: World) -> None:
    queue = full.queue()
    queue.publish_many(map(str, range(5_000)))
    queue.publish("delayed", delay=60)
    for name, size in (("named", 4_500), ("small", 1)):
        queue.claim(lease_id=name, max_messages=size)
        expire(full, name)
    fall_due(full)
    fill(full)
    fresh = full.queue()
    found = []
    while lease := fresh.claim(max_messages=5_000):
        found += payloads(fresh.messages(lease))
        fresh.ack(lease)
    assert sorted(found) == sorted([*map(str, range(5_000)), "delayed"])
    assert fresh.stats()[:5] == (0, 0, 0, 0, 0)


def test_every_way_of_holding_and_settling_still_works(full: World) -> None:
    queue = full.queue(config=LeasedConfig(completed_log=10, failed_log=10))
    queue.publish_many([*"abcdefghi"])
    fill(full)
    one = queue.claim(max_messages=4, lease_id="one")
    assert queue.extend(one, by=1_000) > one.deadline
    one = queue.claim(lease_id="one")
    one = queue.adopt("one", owner="other")
    messages = queue.read(one)
    assert queue.ack(one, messages[:1]).settled == 1
    assert queue.release(one, messages[1:2]).settled == 1
    assert queue.nack(one, messages[2:3]).settled == 1
    assert queue.ack(one).settled == 1
    two = queue.claim_next(ack=queue.claim(lease_id="two"))
    assert queue.nack(two, delay=60).settled == 1
    assert queue.release(queue.claim()).settled == 1
    assert queue.ack(queue.claim(lease_id="three")).settled == 1
    assert (queue.settled("two").acked, queue.settled("three").acked) == (1, 1)


def test_operator_methods_still_work(full: World) -> None:
    queue = full.queue()
    kept, cancelled = queue.publish_many(["a", "b"]).ids
    queue.publish("c", dedup_key="k", delay=60)
    fill(full)
    queue.admin.pause()
    assert queue.stats().paused
    queue.admin.resume()
    assert not queue.stats().paused
    assert [queue.admin.cancel(cancelled), queue.admin.forget("k")] == [True, True]
    assert queue.admin.purge("delayed") == 1
    assert [message.id for message in queue.admin.peek(5)] == [kept]
    assert queue.backlog().ready == 1


def test_waiting_claims_still_work(full: World) -> None:
    queue, other = full.queue(), full.queue()
    queue.publish("x")
    lease = queue.claim()
    fill(full)
    assert other.claim(wait=0.02) is None
    waiting = full.in_background(other.claim, wait=PATIENCE_S)
    blocked(full, 1)
    queue.release(lease)
    assert waiting.result(PATIENCE_S).message.payload == "x"


def test_a_message_that_expires_too_often_still_becomes_a_dead_letter(full: World) -> None:
    queue = full.queue(config=LeasedConfig(max_deliveries=1))
    queue.publish("x")
    queue.claim(lease_id="job")
    expire(full, "job")
    fill(full)
    assert queue.backlog().ready == 0
    assert payloads(queue.admin.dead_letters()) == ["x"]
