from __future__ import annotations

from datetime import timedelta
from math import inf
from typing import Any

import pytest

from rmq_core import ConfigurationError, LeasedConfig, LeaseLost
from rmq_core.leased.reclaiming import reclaim
from tests.core.leases import drain, engine_of, expire, key, payloads, run
from tests.core.worlds import World


def test_the_messages_of_an_expired_lease_are_claimed_again_in_order_with_a_counted_delivery(world: World) -> None:
    queue = world.queue()
    queue.publish_many([*"abcd"])
    stale = queue.claim(max_messages=3, owner="crashed")
    expire(world, stale.id)
    assert queue.backlog().ready == 4
    found = [queue.claim().message for _ in range(4)]
    assert payloads(found) == ["a", "b", "c", "d"]
    assert [message.deliveries for message in found] == [2, 2, 2, 1]
    assert [(failure.kind, failure.owner) for failure in found[0].history] == [("expired", "crashed")]
    with pytest.raises(LeaseLost):
        queue.ack(stale)


def test_an_endless_lease_never_expires(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=None))
    queue.publish("x")
    lease = queue.claim()
    assert (queue.backlog().ready, queue.claim()) == (0, None)
    assert queue.extend(lease, by=5) is None
    assert queue.ack(lease).settled == 1


def test_extending_moves_the_deadline_and_never_to_an_earlier_time(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=100))
    queue.publish("x")
    lease = queue.claim()
    assert queue.extend(lease, by=10) == lease.deadline
    later = queue.extend(lease, by=timedelta(seconds=1000))
    assert (later - lease.deadline).total_seconds() >= 900
    assert queue.extend(lease) == later == queue.admin.leases()[0].deadline


def test_a_hung_handler_cannot_keep_a_lease_beyond_max_hold(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=10, max_hold=60))
    queue.publish("x")
    lease = queue.claim(lease_id="job")
    until = queue.lease_info("job").claimed_at + timedelta(seconds=60)
    assert [queue.extend(lease, by=by) for by in (1000, 2000)] == [until, until]


def test_max_hold_bounds_endless_leases_too(world: World) -> None:
    queue = world.queue(config=LeasedConfig(lease=5, max_hold=60))
    endless = world.queue(config=LeasedConfig(lease=None, max_hold=60))
    queue.publish("x")
    lease = queue.claim(lease_id="job")
    assert endless.extend(lease) == queue.lease_info("job").claimed_at + timedelta(seconds=60)


def test_extending_a_lost_lease_fails_and_does_not_bring_it_back(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    lease = queue.claim()
    queue.release(lease)
    with pytest.raises(LeaseLost):
        queue.extend(lease)
    assert world.client.zcard(key("leases")) == 0


@pytest.mark.parametrize("by", [0, -1, float("inf"), "5", True])
def test_extending_by_an_invalid_duration_is_refused(world: World, by: Any) -> None:
    queue = world.queue()
    queue.publish("x")
    with pytest.raises(ConfigurationError, match="by must be"):
        queue.extend(queue.claim(), by=by)


def test_two_concurrent_reclaims_return_each_message_once(world: World) -> None:
    queue = world.queue()
    queue.publish_many(map(str, range(300)))
    for lease in [queue.claim(max_messages=100) for _ in range(3)]:
        expire(world, lease.id)
    polls = [world.in_background(world.queue().backlog) for _ in range(6)]
    for poll in polls:
        poll.result(60)
    assert queue.backlog().ready == 300
    assert sorted(drain(queue), key=int) == [str(n) for n in range(300)]


def test_a_reclaim_that_another_client_began_is_finished(world: World) -> None:
    queue, crashed = world.queue(), world.queue()
    queue.publish_many(map(str, range(4500)))
    lease = queue.claim(max_messages=4500)
    expire(world, lease.id)
    engine_of(crashed).look_at = inf  # else it would read the settings stored with the queue first
    first_chunk = next(reclaim(engine_of(crashed), lease.id))
    assert run(world, crashed, first_chunk).startswith(b"returned 1000 3500 ")
    assert queue.backlog().ready == 4500
    assert payloads(queue.admin.peek(4500)) == [str(n) for n in range(4500)]
    assert {message.deliveries for message in queue.admin.peek(4500)} == {1}
