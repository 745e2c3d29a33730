"""A server at `maxmemory` that evicts nothing: publish and redrive are refused as a whole, draining still works.

`maxmemory` is set to one byte, so the server stays full however much is drained: no call succeeds because another one
made room before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from rmq_core import LeasedConfig, QueueFull
from rmq_core.messages import NewMessage
from rmq_core.policy import Breaker
from tests.core.leases import expire, fall_due, payloads
from tests.core.worlds import World
from tests.faults import picture, tally
from tests.faults.holders import check_nothing_is_left
from tests.faults.operations import refs
from tests.faults.patience import eventually
from tests.faults.proxy import Fault, Proxy

CONFIG = LeasedConfig(max_deliveries=4, completed_log=10, failed_log=10)


@pytest.fixture
def full(client: redis.Redis) -> Iterator[redis.Redis]:
    """Fills the server on a call of `fill`, and frees its memory at the end."""
    client.config_set("maxmemory-policy", "noeviction")
    yield client
    client.config_set("maxmemory", 0)


def fill(client: redis.Redis) -> None:
    client.config_set("maxmemory", 1)
    tally.count("server out of memory")
    with pytest.raises(redis.OutOfMemoryError):
        client.set("anything", "x")


def stock(world: World, leases: int = 3, groups: str | None = None) -> Any:
    """Return a queue with messages in every state. Its consumers are dead, their leases expired."""
    queue = world.queue(config=CONFIG)
    if groups:
        queue.admin.configure(groups=groups, dedup_until="settled", rate="100000/1s burst 7000")
    queue.publish_many([f"dead {n}" for n in range(3)])
    while lease := queue.claim(max_messages=3):
        queue.nack(lease)
    if groups:
        new = [NewMessage(f"m{n}", group=f"g{n % 200}", dedup_key=str(n)) for n in range(6000)]
        queue.publish_many(new, publication="all")
    else:
        queue.publish_many([f"m{n}" for n in range(6000)])
    held = [queue.claim(max_messages=50, lease_id=f"consumer {number}", owner="dead") for number in range(leases)]
    for lease in held:
        queue.ack(lease, refs(lease, 0, 7))
        expire(world, lease.id)
    queue.publish_many([f"later {n}" for n in range(5)], delay=500)
    return queue


def test_a_call_that_needs_memory_is_refused_as_a_whole_and_leaves_no_trace(world: World, full: redis.Redis) -> None:
    queue = stock(world)
    before = picture.of_queue(full, queue.name)
    assert before["dead"]
    fill(full)
    for call in (
        lambda: queue.publish("x"),
        lambda: queue.publish("x", dedup_key="k"),
        lambda: queue.publish("x", delay=5),
        lambda: queue.publish_many([f"x{n}" for n in range(5000)]),
        queue.admin.redrive,
    ):
        with pytest.raises(QueueFull):
            call()
    assert picture.of_queue(full, queue.name) == before
    assert not full.keys("rmq:{q}:dedup*")


@pytest.mark.parametrize("groups", [None, "exclusive", "fair"])
def test_new_consumers_drain_a_full_server_to_empty(world: World, full: redis.Redis, groups: str | None) -> None:
    stock(world, groups=groups)
    fall_due(world)
    fill(full)
    queue, done = world.queue(config=CONFIG), []
    lease = queue.claim(max_messages=7)
    while lease is not None:
        done += payloads(lease.messages)
        lease = queue.claim_next(ack=lease, max_messages=500)
    assert queue.stats()[:4] == (0, 0, 0, 0)
    assert len(done) == len(set(done)) == 6000 - 3 * 2 + 5
    if groups:
        assert queue.publication("all")[1:7] == (6000, 0, 0, 6000, 0, 0)
        check_nothing_is_left(full, queue)
        full.config_set("maxmemory", 0)
        assert queue.publish("m", dedup_key="7").accepted, "a key of an acked message is free"


def test_messages_that_expired_leave_a_full_server_and_those_behind_them_are_claimed(
    world: World, full: redis.Redis
) -> None:
    for groups in ("fair", "exclusive"):
        queue = world.queue(groups, config=CONFIG)
        queue.admin.configure(groups=groups)
        queue.publish_many(["old"] * 1_300, group="g", expires=60)
        queue.publish_many(["new"] * 20, group="g")
        key = f"rmq:{{{groups}}}:expiring"
        full.zadd(key, dict.fromkeys(full.zrange(key, 0, -1), 1))
    fill(full)
    for groups in ("fair", "exclusive"):
        queue = world.queue(groups, config=CONFIG)
        with pytest.raises(QueueFull):
            queue.publish("x", expires=5)
        assert queue.backlog().ready == 20
        assert queue.ack(queue.claim(max_messages=50)).settled == 20
        assert queue.stats()[:5] == (0, 0, 0, 0, 1_300)
        with pytest.raises(QueueFull):
            queue.admin.redrive()


def test_every_call_that_drains_works_on_a_full_server(world: World, full: redis.Redis) -> None:
    stock(world, leases=0)
    fill(full)
    queue = world.queue(config=CONFIG)
    assert queue.extend(queue.claim(lease_id="job", max_messages=10)) is not None
    queue.claim(lease_id="job")
    adopted = queue.adopt("job", owner="me")
    assert queue.ack(adopted, refs(adopted, 0, 2)).settled == 2
    assert queue.nack(adopted, refs(adopted, 1, 3)).settled == 2
    assert queue.release(adopted, refs(adopted, 4)).settled == 1
    assert queue.release(adopted).settled == 5
    assert queue.nack(queue.claim(max_messages=5), delay=5).settled >= 1
    large = queue.claim(max_messages=5500)
    while large.count < 4000:  # messages that were delivered before are claimed alone first
        queue.ack(large)
        large = queue.claim(max_messages=5500)
    assert len(list(queue.messages(large))) == large.count
    assert queue.nack(large).settled == large.count
    with queue.process(max_messages=3) as batch:
        assert batch
    queue.admin.pause()
    assert queue.claim(wait=0.01) is None
    queue.admin.resume()
    assert queue.admin.cancel(queue.admin.peek()[0].id)
    assert not queue.admin.forget("unknown")
    late = queue.claim(max_messages=4, lease_id="late", lease=0.001)
    eventually(lambda: queue.backlog() and queue.lease_info(late.id) is None)
    for target in ("dead", "delayed", "completed", "failed", "ready"):
        assert queue.admin.purge(target) > 0
    assert queue.claim(wait=0.01) is None
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_a_full_server_pauses_a_queue_whose_messages_die(world: World, full: redis.Redis) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=1, pause_after_dead=Breaker(2, 600)))
    queue.publish_many([*"abc"])
    fill(full)
    queue.nack(queue.claim())
    queue.nack(queue.claim())
    assert (queue.stats().dead, queue.stats().paused, queue.claim()) == (2, True, None)


def test_a_full_server_takes_publishes_again_once_it_has_room(world: World, full: redis.Redis) -> None:
    queue = world.queue(config=CONFIG)
    fill(full)
    with pytest.raises(QueueFull) as refused:
        queue.publish_many(["a", "b"])
    assert refused.value.report[:3] == (0, 0, 0)
    full.config_set("maxmemory", 0)
    assert queue.publish_many(["a", "b"]).accepted == 2


def test_a_chunk_whose_reply_got_lost_counts_although_the_server_is_full_when_it_is_sent_again(
    world: World, full: redis.Redis, wire: Proxy
) -> None:
    queue = world.queue(settings=wire.url)
    queue.publish("registered")
    wire.cut()
    queue.publish_many(["x"] * 1000)
    executed = max(at for at, command in enumerate(wire.commands) if command == b"EXEC")
    wire.cut(Fault.REPLY_LOST, executed, meanwhile=lambda: fill(full))
    assert queue.publish_many(["y"] * 1000).accepted == 1000
    assert wire.hit
    assert queue.stats().ready == 2001
