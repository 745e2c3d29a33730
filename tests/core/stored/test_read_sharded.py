"""This version reads format 3 for ever: shards of a golden file are claimed, settled, counted and left."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core import LeasedConfig, LeaseLost
from tests.core.leases import drain, key, payloads
from tests.core.stored.golden import load
from tests.core.stored.leased_scenes import HEADERS, HOUR_S
from tests.core.stored.scenes import golden
from tests.core.worlds import World

HELD = {"m4", "m5", "m9", "m11", "m12"}
READY = {"m7", "m10"}


def stored(world: World) -> Any:
    """The queue of the golden file."""
    load(world.client, golden("sharded"))
    return world.queue(config=LeasedConfig(lease=HOUR_S))


def pass_deadlines(world: World) -> None:
    """Let all parts be looked at, and what a decided lease left."""
    for name in (key("leases"), b"rmq:shard:{q~1284}:leases", b"rmq:shard:{q~476}:leases"):
        for lease in world.client.zrange(name, 0, -1):
            if lease.startswith((b"~@", b"~=")):
                world.client.zadd(name, {lease: 1})


def test_the_shards_and_the_leases_over_them_are_known(world: World) -> None:
    queue = stored(world)
    assert queue.stats()[:5] == (2, 1, 14, 1, 0)
    shards = queue.admin.shards()
    assert [(each.name, each.draining, each.epoch) for each in shards] == [
        ("0", False, 2), ("1284", False, 2), ("476", True, 2),
    ]  # fmt: skip
    assert [(each.id, each.owner, each.count) for each in queue.admin.leases()] == [("job", "host 2", 5)]
    assert queue.settled("decided").acked == 9
    assert not queue.publish("again", dedup_key="k3").accepted  # known in the shard that only drains
    assert queue.publish("again", dedup_key="other").accepted


def test_a_lease_in_parts_is_adopted_settled_and_taken_from_its_holder(world: World) -> None:
    queue = stored(world)
    lease = queue.adopt("job")
    messages = list(queue.messages(lease))
    assert set(payloads(messages)) == HELD
    assert dict(messages[0].headers) == HEADERS
    queue.ack(lease, messages[:2])
    again = queue.claim(lease_id="job", max_messages=9)
    assert set(payloads(queue.messages(again))) == set(payloads(messages[2:]))
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    queue.ack(again)
    pass_deadlines(world)
    assert set(drain(queue)) == READY


def test_parts_whose_ack_was_decided_are_acked_and_those_of_a_lease_that_expires_come_back(world: World) -> None:
    queue = stored(world)
    pass_deadlines(world)
    assert set(drain(queue)) == READY
    assert queue.stats()[2:4] == (5, 1)
    world.client.zadd(key("leases"), {"job": 1})
    pass_deadlines(world)
    assert set(drain(queue)) == HELD
    assert world.client.exists(key("parts:decided")) == 0


def test_a_stored_queue_runs_empty_and_is_forgotten(world: World) -> None:
    queue = stored(world)
    pass_deadlines(world)
    queue.ack(queue.adopt("job"))
    drain(queue)
    queue.admin.purge("delayed")
    assert queue.admin.configure(shards=3).stored["shards"].epoch == 3
    queue.admin.unregister()
    assert world.client.exists(key("ready"), key("format"), key("settings"), key("epoch")) == 0
