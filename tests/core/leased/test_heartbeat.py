"""Leases that are extended while a handler works, and handlers that are notified when theirs is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from rmq_core import LeasedConfig, LeasedQueue, LeaseLost
from rmq_core.asyncio import LeasedQueue as AsyncQueue
from tests.core.leases import PATIENCE_S, eventually, frequent_heartbeats, kept, key, share_of
from tests.core.worlds import World

LEASE_S = 60


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Make heartbeats frequent, so that the tests need no short leases."""
    with frequent_heartbeats():
        yield


def let_pass(world: World, seconds: int) -> None:
    """Let so much time pass for every lease at once."""
    for lease in world.client.zrange(key("leases"), 0, -1):
        world.client.zincrby(key("leases"), -1000 * seconds, lease)


def test_a_lease_is_held_beyond_its_duration_during_the_work(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=LEASE_S))
    queue.publish_many(["short", "long", "held"])
    held = queue.claim(lease=LEASE_S)
    rival = world.queue()
    with queue.process() as one, queue.process(lease=LEASE_S * 2 / 3) as two, queue.hold(held):
        for _ in range(4):
            let_pass(world, LEASE_S // 3)
            for lease, lease_s in ((one.lease, LEASE_S), (two.lease, LEASE_S * 2 / 3), (held, LEASE_S)):
                kept(lease, lease_s)
            assert rival.claim() is None
        assert (one.lease.lost, two.lease.lost, held.lost) == (False, False, False)
        one.check()
    assert queue.ack(held).settled == 1
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_hold_extends_a_lease_even_just_before_its_deadline(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=300))
    queue.publish("x")
    lease = queue.claim(lease_id="job", lease=LEASE_S)
    with queue.hold(lease):
        eventually(lambda: queue.lease_info("job").deadline > lease.deadline)
    assert queue.ack(lease).settled == 1


def test_a_handler_is_notified_when_its_lease_was_taken_over(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=LEASE_S))
    queue.publish("x")
    told: list[Any] = []
    lease = queue.claim(lease_id="job")
    with queue.hold(lease, on_lost=told.append):
        world.queue().adopt("job", owner="thief", lease=60)
        eventually(lambda: told)
        assert lease.lost
        with pytest.raises(LeaseLost, match="job"):
            lease.check()
    assert told == [lease]


def test_a_handler_is_notified_when_its_lease_cannot_be_extended_in_time(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=0.3))
    queue.publish("x")
    lease = queue.claim(lease_id="job")
    with queue.hold(lease):
        world.client.set(key("lease:job"), "not a list: every extension fails")
        eventually(lambda: lease.lost)
        with pytest.raises(LeaseLost):
            lease.check()


def test_closing_a_queue_returns_the_connection_of_a_running_heartbeat_to_its_pool(redis_client: redis.Redis) -> None:
    begun, go_on = threading.Event(), threading.Event()
    queue = LeasedQueue(redis_client, "q")
    queue.publish("x")
    lease, send = queue.claim(), queue._driver._send

    def slow(*write: Any) -> Any:
        del queue._driver._send  # `close` uses this driver too
        begun.set()
        go_on.wait(PATIENCE_S)
        return send(*write)

    queue._driver._send = slow  # type: ignore[method-assign]
    sending = threading.Thread(target=queue.extend_all, args=([(lease, LEASE_S)],))
    sending.start()
    assert begun.wait(PATIENCE_S)
    queue.close()
    go_on.set()
    sending.join()
    assert not share_of(queue).idle
    assert queue.ack(lease).settled == 1  # type: ignore[arg-type]


async def test_closing_an_async_queue_returns_the_connection_of_a_running_heartbeat_to_its_pool(
    async_redis_client: redis.asyncio.Redis,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    queue = AsyncQueue(async_redis_client, "q")
    await queue.publish("x")
    lease, send = await queue.claim(), queue._driver._send

    async def slow(*write: Any) -> Any:
        del queue._driver._send  # `close` uses this driver too
        begun.set()
        await go_on.wait()
        return await send(*write)

    queue._driver._send = slow  # type: ignore[method-assign]
    assert lease is not None
    sending = asyncio.create_task(queue.extend_all([(lease, LEASE_S)]))
    await begun.wait()
    await queue.close()
    go_on.set()
    assert await sending == [True]
    assert not share_of(queue).idle


def test_a_heartbeat_that_outlives_its_queue_leaves_no_connection_open(world: World) -> None:
    def connected() -> set[str]:
        return {client["id"] for client in world.client.client_list()}

    before = connected()
    queue = world.queue()
    queue.publish("x")
    lease = queue.claim()
    queue.close()
    assert queue.extend_all([(lease, LEASE_S)]) == [True]
    eventually(lambda: connected() <= before)


def test_one_thread_extends_all_leases_of_the_process(world: World) -> None:
    threads = set(threading.enumerate())  # other tests may have left heartbeats of their own
    queues = [world.queue(f"q{n}", LeasedConfig(lease=LEASE_S)) for n in range(5)]
    leases = []
    for queue in queues:
        queue.publish_many(["a", "b"])
        leases += [(queue, queue.claim()), (queue, queue.claim())]
    holds = [queue.hold(lease) for queue, lease in leases]
    for hold in holds:
        hold.__enter__()
    before = {lease.id: queue.lease_info(lease.id).deadline for queue, lease in leases}
    for queue, lease in leases:
        eventually(lambda queue=queue, lease=lease: queue.lease_info(lease.id).deadline > before[lease.id])
    begun = [thread.name for thread in threading.enumerate() if thread not in threads]
    assert begun.count("rmq-heartbeat") <= 1
    for hold in holds:
        hold.__exit__(None, None, None)
    assert all(queue.ack(lease).settled == 1 for queue, lease in leases)


def test_a_lease_that_reached_max_hold_is_reclaimed_and_its_handler_notified(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=0.3, max_hold=0.3))
    queue.publish("x")
    lease = queue.claim(lease_id="job")
    with queue.hold(lease):
        assert eventually(world.queue().claim).message.deliveries == 2
        eventually(lambda: lease.lost)
