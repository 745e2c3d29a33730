"""This version reads format 2 for ever: groups of a golden file are claimed, settled, listed and changed."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core import LeasedConfig, LeaseLost
from rmq_core.messages import IsolatedGroup
from tests.core.leases import drain, expire, key, payloads
from tests.core.stored.golden import load
from tests.core.stored.leased_scenes import HEADERS, HOUR_S
from tests.core.stored.scenes import golden
from tests.core.worlds import World


def stored(world: World, name: str) -> Any:
    """The queue of a golden file."""
    load(world.client, golden(name))
    return world.queue(config=LeasedConfig(lease=HOUR_S))


def test_a_held_a_resting_and_a_free_group_are_claimed_when_they_may_be(world: World) -> None:
    queue = stored(world, "grouped_exclusive")
    assert queue.admin.settings().stored["groups"].weights == {"gold": 5, "ż": 0.5}
    assert [(each.name, each.waiting, each.leases, each.ready) for each in queue.admin.groups()] == [
        ("lead", 3, 0, True), ("ż", 3, 0, False), ("gold", 1, 1, False), ("", 1, 0, True),
    ]  # fmt: skip
    assert queue.backlog().ready == 4
    assert queue.claim(groups=["gold", "ż"]) is None
    held = queue.adopt("job")
    assert payloads(queue.messages(held)) == ["gold1"]
    queue.ack(held)
    last = queue.claim(groups=["gold"])
    assert (payloads(last.messages), dict(last.message.headers)) == (["gold2"], {**HEADERS, "rmq-group": "gold"})
    queue.release(last)
    for name in ("resting", "delayed"):
        world.client.zadd(key(name), dict.fromkeys(world.client.zrange(key(name), 0, -1), 1))
    record = world.client.hget(key("groups"), "ż").rpartition(b" ")
    world.client.hset(key("groups"), "ż", record[0] + b" 0")  # the time until which it rests
    found = drain(queue)
    assert [text for text in found if text[0] == "ż"] == ["ż0", "ż1", "ż2"]
    assert sorted(found) == sorted(["gold2", "lead0", "lead1", "lead2", "ż0", "ż1", "ż2", "alone", "due"])
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_priorities_and_isolated_messages_are_claimed_apart(world: World) -> None:
    queue = stored(world, "grouped_fair")
    assert queue.stats()[:4] == (7, 0, 1, 1)
    assert queue.backlog().groups == (IsolatedGroup(4, 2),)
    assert payloads(queue.claim(max_messages=9, groups=["b"]).messages) == ["b0"]
    claims = []
    while lease := queue.claim(max_messages=9):
        claims.append((lease.isolation is not None, sorted(payloads(lease.messages))))
    isolated = sorted(text for apart, texts in claims if apart for text in texts)
    assert isolated == [f"together{number}" for number in range(4)]
    assert [texts for apart, texts in claims if not apart] == [["after", "none"]]


@pytest.mark.parametrize("end", ["ack", "expiry"])
def test_messages_on_their_way_to_groups_arrive_and_wait_for_the_leases_of_before(world: World, end: str) -> None:
    queue = stored(world, "grouped_later")
    for name in world.client.zrange(key("leases"), 0, -1):
        if name.startswith(b"~+"):
            world.client.zadd(key("leases"), {name: 1})
    assert queue.claim() is None
    if end == "ack":
        queue.ack(queue.adopt("before"))
    else:
        expire(world, "before")
    assert sorted(drain(queue)) == ["m1", "m2"] if end == "ack" else ["m0", "m1", "m2"]


def test_a_holder_from_before_settles_and_a_stale_one_does_not(world: World) -> None:
    queue = stored(world, "grouped_exclusive")
    expire(world, "job")
    assert payloads(queue.claim(max_messages=9, groups=["gold"]).messages) == ["gold1", "gold2"]
    with pytest.raises(LeaseLost):
        queue.adopt("job")


def test_groups_are_removed_from_a_stored_queue(world: World) -> None:
    queue = stored(world, "grouped_exclusive")
    queue.admin.configure(reset="groups")
    assert world.client.type(key("ready")) == b"list"
    queue.ack(queue.adopt("job"))
    assert len(drain(queue)) == 8
