"""Processes that are stopped for longer than a lease: a consumer that resumes too late, and a Redis that hangs."""

from __future__ import annotations

import threading

import pytest
import redis

from rmq_core import LeasedConfig, LeasedQueue, LeaseLost
from tests.core.leases import expire
from tests.core.worlds import World
from tests.faults import picture, tally
from tests.faults.crew import Member
from tests.faults.patience import eventually
from tests.faults.sleeper import CONFIG
from tests.servers import Server

BRIEF = "?socket_timeout=0.5"


@pytest.mark.parametrize("flavour", ["sync", "async"])
@pytest.mark.parametrize("lease_id", ["job", "another"], ids=["the same lease id", "another lease"])
def test_a_suspended_consumer_that_resumes_after_its_lease_was_taken_changes_nothing(
    own_server: Server, client: redis.Redis, flavour: str, lease_id: str
) -> None:
    with LeasedQueue(own_server.url, "q", LeasedConfig(lease=600)) as queue:
        queue.publish("x")
        with Member("sleeper", flavour, own_server.url) as sleeper:
            assert sleeper.hear() == "claimed"
            sleeper.stop()
            eventually(lambda: queue.backlog().ready)  # its lease has expired and was reclaimed
            lease = queue.claim(lease_id=lease_id, owner="successor")
            before = picture.of_queue(client, "q")
            sleeper.wake()
            sleeper.tell("go on")
            assert [sleeper.hear(), sleeper.hear()] == ["lost", "LeaseLost"]
            assert sleeper.wait() == 0
        assert picture.of_queue(client, "q") == before
        assert lease.message.deliveries == 2
        assert queue.ack(lease).settled == 1


def test_a_suspended_consumer_is_fenced_off_by_a_takeover_although_its_lease_never_expired(
    own_server: Server, client: redis.Redis
) -> None:
    with LeasedQueue(own_server.url, "q", LeasedConfig(lease=600)) as queue:
        queue.publish("x")
        with Member("sleeper", "sync", own_server.url) as sleeper:
            assert sleeper.hear() == "claimed"
            sleeper.stop()
            lease = queue.adopt("job", owner="successor")
            sleeper.wake()
            sleeper.tell("go on")
            assert [sleeper.hear(), sleeper.hear()] == ["lost", "LeaseLost"]
        assert queue.lease_info("job").owner == "successor"
        assert queue.ack(lease).settled == 1


def test_a_handler_detects_its_lost_lease_while_redis_hangs(
    world: World, own_server: Server, client: redis.Redis
) -> None:
    queue = world.queue(config=CONFIG, settings=own_server.url + BRIEF)
    queue.publish("x")
    lease, told = queue.claim(lease_id="job"), threading.Event()
    with queue.hold(lease, on_lost=lambda _: told.set()):
        own_server.pause()
        tally.count("Redis stopped for longer than a lease")
        try:
            eventually(lambda: lease.lost)
            assert told.wait(60)
        finally:
            own_server.resume()
        with pytest.raises(LeaseLost):
            lease.check()
    with LeasedQueue(own_server.url, "q", LeasedConfig(lease=600)) as other:
        successor = eventually(other.claim)
        with pytest.raises(LeaseLost):
            queue.ack(lease)
        assert other.ack(successor).settled == 1


def test_process_reports_a_lease_lost_while_redis_hung(world: World, own_server: Server) -> None:
    queue = world.queue(config=CONFIG, settings=own_server.url + BRIEF)
    other = world.queue(config=LeasedConfig(lease=600))
    queue.publish("x")

    def handle() -> None:
        with queue.process() as batch:
            own_server.pause()
            tally.count("Redis stopped for longer than a lease")
            try:
                eventually(lambda: batch.lease.lost)
            finally:
                own_server.resume()
            eventually(other.claim)

    with pytest.raises(LeaseLost):
        handle()
    assert other.stats()[:5] == (0, 0, 1, 1, 0)


def test_a_short_hang_of_redis_costs_only_time(world: World, own_server: Server) -> None:
    queue = world.queue(config=LeasedConfig(lease=60), settings=own_server.url + BRIEF)
    queue.publish_many(["x", "y"])
    with queue.process() as batch:
        own_server.pause()
        tally.count("Redis stopped for a moment")
        published = world.in_background(queue.publish, "z")
        assert not batch.lease.lost
        threading.Event().wait(0.7)  # longer than the socket timeout: the publish is sent more than once
        own_server.resume()
        assert published.result(60).accepted
    assert queue.stats()[:5] == (2, 0, 0, 0, 0)


def test_a_lease_that_expired_unnoticed_is_extended_by_the_next_heartbeat(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=60))
    queue.publish("x")
    lease = queue.claim(lease_id="job")
    expire(world, "job")
    with queue.hold(lease):
        eventually(lambda: queue.lease_info("job").deadline >= lease.deadline)
        assert not lease.lost
    assert queue.ack(lease).settled == 1
