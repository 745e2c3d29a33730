"""Deduplication keys that are taken until their message is settled, whatever happens to it on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rmq_core import LeasedConfig, Match, NewMessage
from rmq_core.errors import ConfigurationError
from tests.core.leases import drain, fall_due, key
from tests.core.worlds import World


def unique(world: World, policy: str = "fair", **config: Any) -> Any:
    queue = world.queue(config=LeasedConfig(**config))
    queue.admin.configure(groups=policy, dedup_until="settled")
    return queue


ENDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "ack": lambda queue, lease: queue.ack(lease),
    "ack one": lambda queue, lease: queue.ack(lease, messages=lease.messages),
    "claim_next": lambda queue, lease: queue.claim_next(ack=lease),
    "nack": lambda queue, lease: queue.nack(lease),
    "expiry": lambda queue, lease: queue.admin.expire_lease(lease.id),
    "takeover and ack": lambda queue, lease: queue.ack(queue.adopt(lease.id)),
    "release and cancel": lambda queue, lease: (queue.release(lease), queue.admin.cancel(lease.message.id)),
    "release and purge": lambda queue, lease: (queue.release(lease), queue.admin.purge("ready")),
    "release and purge some": lambda queue, lease: (
        queue.release(lease), queue.admin.purge("ready", where=Match(text="x")),
    ),
    "later and purge": lambda queue, lease: (queue.nack(lease, delay=60), queue.admin.purge("delayed")),
    "later and cancel": lambda queue, lease: (queue.nack(lease, delay=60), queue.admin.cancel(lease.message.id)),
    "forget": lambda queue, lease: queue.admin.forget("k"),
}  # fmt: skip


@pytest.mark.parametrize("policy", ["fair", "exclusive"])
@pytest.mark.parametrize("how", ENDINGS)
def test_a_key_is_taken_until_its_message_is_done(world: World, how: str, policy: str) -> None:
    policy = "concurrent 2" if "later" in how else policy  # in an exclusive group, the group waits, not the message
    queue = unique(world, policy, max_deliveries=3 if "later" in how else 1)
    other = world.queue()
    assert queue.publish("x", dedup_key="k", group="a").accepted
    assert not other.publish("x", dedup_key="k").accepted
    assert queue.admin.remembered("k") == float("inf")
    lease = queue.claim()
    assert not other.publish_many(["x"], dedup_key=lambda _: "k").accepted
    queue.release(lease)
    assert not other.publish("x", dedup_key="k").accepted
    if "later" in how:
        queue.nack(queue.claim(), delay=60)
        assert not other.publish("x", dedup_key="k").accepted
        fall_due(world)
    ENDINGS[how](queue, queue.claim())
    assert queue.admin.remembered("k") is None
    assert other.publish("x", dedup_key="k").accepted


def test_keys_of_acked_leases_are_dropped_with_time(world: World) -> None:
    queue = unique(world, dedup=True)
    for _ in range(20):
        assert queue.publish_many(map(str, range(50))).accepted == 50
        drain(queue)
    for number in range(50):
        queue.publish(f"other {number}")
    assert world.client.hlen(key("unique")) < 90


def test_staged_messages_are_compared_when_they_are_published(world: World) -> None:
    queue = unique(world, dedup=True)
    stages = [queue.stage([*"abca", NewMessage("d", delay=60), NewMessage("d", delay=60)]), queue.stage([*"bceff"])]
    assert queue.publish("a").accepted
    queue.publish_staged(stages)
    fall_due(world)
    assert sorted(drain(queue)) == ["a", "b", "c", "d", "e", "f"]


def test_a_purge_of_what_is_ready_frees_no_key_of_a_delayed_message(world: World) -> None:
    queue = unique(world)
    queue.publish("a", dedup_key="a")
    queue.publish("b", dedup_key="b", delay=60)
    assert queue.admin.purge("ready") == 1
    assert queue.publish("a", dedup_key="a").accepted
    assert not queue.publish("b", dedup_key="b").accepted


def test_keys_survive_a_change_of_the_groups(world: World) -> None:
    queue = unique(world, dedup=True)
    queue.publish_many(["a", "b"])
    lease = queue.claim()
    queue.admin.configure(groups="exclusive")
    assert queue.publish_many(["a", "b", "c"]).accepted == 1
    queue.ack(lease)
    assert queue.publish_many(["a", "b", "c"]).accepted == 1
    queue.admin.configure(reset=["groups", "dedup_until"])
    assert not world.client.exists(key("unique"))
    queue.admin.configure(groups="fair", dedup_until="settled")
    assert queue.publish_many(["a", "b", "c"]).accepted == 0
    assert len(drain(queue)) == 3


def test_unique_keys_need_groups(world: World) -> None:
    with pytest.raises(ConfigurationError, match="dedup_until 'settled' needs groups"):
        LeasedConfig(dedup_until="settled")
    queue = unique(world)
    with pytest.raises(ConfigurationError, match="dedup_until 'settled' needs groups"):
        queue.admin.configure(reset="groups")
    with pytest.raises(ConfigurationError, match="dedup_until must be"):
        queue.admin.configure(dedup_until="acked")
