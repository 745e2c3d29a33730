"""Leases that are kept alive while somebody works, and handlers that hear when theirs is gone."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest

from rmq_core import ConfigurationError, Lease, LeasedConfig, LeaseLost
from tests.redis.leases import eventually, key
from tests.redis.worlds import World

LEASE_S = 1.0


def outlast(world: World, seconds: float) -> None:
    """Let time pass while a rival takes whatever has expired."""
    rival = world.queue()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert rival.claim() is None
        time.sleep(0.05)


def test_a_lease_outlives_its_time_while_somebody_works(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=LEASE_S))
    queue.publish_many(["short", "long", "held"])
    held = queue.claim(lease=LEASE_S)
    with queue.process() as one, queue.process(lease=LEASE_S / 2 + 0.3) as two, queue.hold(held):
        outlast(world, 2.5 * LEASE_S)
        assert (one.lost, two.lost, held.lost) == (False, False, False)
        one.check()
    assert queue.ack(held).settled == 1
    assert queue.stats()[:5] == (0, 0, 0, 0, 0)


def test_holding_a_lease_saves_it_even_when_its_own_time_is_nearly_over(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=300))
    queue.publish("x")
    lease = queue.claim(lease_id="job", lease=LEASE_S)
    with queue.hold(lease):
        eventually(lambda: queue.lease_info("job").deadline > lease.deadline)
    assert queue.ack(lease).settled == 1


def test_a_lease_is_no_longer_extended_after_its_block(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=0.1))
    queue.publish("x")
    lease = queue.claim(lease_id="job")
    with queue.hold(lease):
        eventually(lambda: queue.lease_info("job").deadline > lease.deadline)
    assert eventually(world.queue().claim).message.deliveries == 2
    assert not lease.lost


def test_a_handler_sees_that_its_lease_was_taken(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=0.3))
    queue.publish("x")
    told: list[Any] = []
    lease = queue.claim(lease_id="job")
    with queue.hold(lease, on_lost=told.append):
        world.queue().adopt("job", owner="thief", lease=60)
        eventually(lambda: lease.lost)
        with pytest.raises(LeaseLost, match="job"):
            lease.check()
    assert told == [lease]


def test_a_callback_that_raises_does_not_stop_the_heartbeat_of_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def complain(_: Any) -> None:
        raise RuntimeError("callback")

    queue = world.queue(config=LeasedConfig(lease=0.3))
    queue.publish_many(["a", "b"])
    stolen, kept = queue.claim(lease_id="stolen"), queue.claim(lease_id="kept")
    with caplog.at_level(logging.ERROR, "rmq"), queue.hold(stolen, on_lost=complain), queue.hold(kept):
        world.queue().adopt("stolen", owner="thief", lease=60)
        eventually(lambda: stolen.lost)
        deadline = queue.lease_info("kept").deadline
        eventually(lambda: queue.lease_info("kept").deadline > deadline)
    assert "on_lost raised" in caplog.text


def test_a_handler_sees_that_its_lease_cannot_be_extended_in_time(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=0.3))
    queue.publish("x")
    lease = queue.claim(lease_id="job")
    with queue.hold(lease):
        world.client.set(key("lease:job"), "not a list: every extension fails")
        eventually(lambda: lease.lost)
        with pytest.raises(LeaseLost):
            lease.check()


def test_a_lease_without_token_cannot_be_held(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    described = Lease.from_json(queue.claim().to_json())
    with pytest.raises(ConfigurationError, match="adopt"), queue.hold(described):
        pytest.fail("the block began")


def test_a_settled_lease_is_not_reported_lost(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=1.5))
    queue.publish("x")
    told: list[Any] = []
    lease = queue.claim()
    with queue.hold(lease, on_lost=told.append):
        queue.ack(lease)
        time.sleep(0.8)  # longer than it takes to the next heartbeat
        assert (lease.lost, told) == (False, [])


def test_one_thread_keeps_every_lease_of_the_process(world: World) -> None:
    queues = [world.queue(f"q{n}", LeasedConfig(lease=0.6)) for n in range(5)]
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
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("rmq-heartbeat") <= 1
    for hold in holds:
        hold.__exit__(None, None, None)
    assert all(queue.ack(lease).settled == 1 for queue, lease in leases)


def test_a_lease_that_reached_max_hold_is_reclaimed_and_lost_to_its_handler(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=0.3, max_hold=0.3))
    queue.publish("x")
    lease = queue.claim(lease_id="job")
    with queue.hold(lease):
        assert eventually(world.queue().claim).message.deliveries == 2
        eventually(lambda: lease.lost)
