"""Leases whose holder works on one message after the other: a crash is blamed on the message that was in work."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_core import LeasedConfig, LeaseLost
from tests.core.leases import expire, payloads
from tests.core.worlds import World


def deliveries(queue: Any, most: int = 100) -> dict[Any, int]:
    return {message.payload: message.deliveries for message in queue.admin.peek(most)}


def test_a_crash_counts_only_for_the_message_that_was_in_work(world: World) -> None:
    queue = world.queue()
    queue.publish_many("abcde")
    lease = queue.claim(max_messages=4, lease_id="job", sequential=True)
    queue.ack(lease, [lease.messages[0]])
    queue.nack(lease, [lease.messages[1]], reason="broken")
    expire(world, "job")
    assert queue.backlog().ready == 4
    assert payloads(queue.admin.peek(4)) == ["d", "c", "b", "e"]  # those that it had not begun come first
    assert deliveries(queue) == {"d": 0, "c": 1, "b": 1, "e": 0}
    with pytest.raises(LeaseLost):
        queue.ack(lease)


@pytest.mark.parametrize("size", [1, 3, 2_500, 9_000])
def test_one_poison_message_costs_its_deliveries_and_no_other_any(world: World, size: int) -> None:
    """As a task would that dies at the poison message each time, whatever the size of its batches."""
    queue = world.queue(config=LeasedConfig(max_deliveries=3))
    queue.publish_many(["poison", *map(str, range(size - 1))])
    kills = 0
    while (lease := queue.claim(max_messages=size, lease_id="job", sequential=True)) is not None:
        left = [message for message in queue.messages(lease) if message.payload == "poison"]
        if not left:
            queue.ack(lease)
            queue.admin.forget("job")
            continue
        before = [message for message in queue.messages(lease) if message.index < left[0].index]
        if before:
            queue.ack(lease, before)
        kills += 1
        queue.admin.expire_lease("job", reason="killed")
    assert kills == 3
    (letter,) = queue.admin.dead_letters()
    assert (letter.payload, [each.reason for each in letter.history]) == ("poison", ["killed"] * 3)


def test_a_takeover_forgets_how_the_former_holder_worked(world: World) -> None:
    queue = world.queue()
    queue.publish_many("abc")
    lease = queue.claim(max_messages=3, lease_id="job", sequential=True)
    queue.ack(lease, [lease.messages[0]])
    queue.claim(max_messages=3, lease_id="job")  # a retry, which works on the batch as a whole
    queue.admin.expire_lease("job")
    assert deliveries(queue) == {"b": 2, "c": 2}


def test_all_tries_under_one_name_count_as_one_failure_of_the_message_in_work(world: World) -> None:
    queue = world.queue(config=LeasedConfig(max_deliveries=3))
    queue.publish_many("ab")
    for _ in range(2):
        queue.claim(max_messages=2, lease_id="job", sequential=True)
    queue.admin.expire_lease("job")
    assert deliveries(queue) == {"a": 2, "b": 0}
    queue.ack(queue.claim())
    for dead in (0, 1):
        queue.claim(lease_id="alone")
        queue.admin.expire_lease("alone")
        assert queue.stats().dead == dead
