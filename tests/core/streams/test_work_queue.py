"""A stream as a WorkQueue, where it differs from other disciplines; the conformance suite tests the common promises."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from redis.crc import key_slot

from rmq_core import LeaseLost, Unsupported
from rmq_core.errors import QueueError
from rmq_core.reports import Outcome
from rmq_core.streams import QueueConfig
from tests.core.leases import PATIENCE_S
from tests.core.worlds import World

KEY, GROUP = "rmq:{q}:stream", "rmq"


def open_queue(world: World, **settings: Any) -> Any:
    return world.open("streams", "q", QueueConfig.named("q", **settings))


def numbers(lease: Any) -> list[int]:
    return [message.payload["n"] for message in lease.messages]


def test_native_consumers_and_leases_share_one_group(world: World) -> None:
    queue = open_queue(world, block_ms=50)
    queue.publish_many({"n": number} for number in range(3))
    assert queue.read()[0].payload == {"n": 0}
    assert numbers(queue.claim(max_messages=5)) == [1, 2]
    assert queue.read() == []


def test_a_lease_is_a_consumer_of_the_group_that_is_deleted_with_it(world: World) -> None:
    queue = open_queue(world)
    queue.publish({"n": 1})
    lease = queue.claim(owner="job 7")
    names = [consumer["name"].decode() for consumer in world.client.xinfo_consumers(KEY, GROUP)]
    assert names == [lease.token]
    assert lease.token.startswith(f"{lease.id}.")
    assert lease.id.startswith("~job 7/")
    queue.ack(lease)
    assert world.client.xinfo_consumers(KEY, GROUP) == []


def test_the_consumer_of_an_expired_lease_is_deleted_when_its_messages_are_claimed(world: World) -> None:
    queue = open_queue(world, claim_idle_ms=30)
    queue.publish({"n": 1})
    first = queue.claim()
    time.sleep(0.05)
    second = queue.claim()
    assert (second.message.deliveries, first.message.deliveries) == (2, 1)
    names = [consumer["name"].decode() for consumer in world.client.xinfo_consumers(KEY, GROUP)]
    assert names == [second.token]
    with pytest.raises(LeaseLost):
        queue.ack(first)


def test_new_messages_are_claimed_before_stale_ones(world: World) -> None:
    queue = open_queue(world)
    queue.publish({"n": 1})
    queue.nack(queue.claim())
    queue.publish({"n": 2})
    assert numbers(queue.claim(max_messages=5)) == [2]
    assert numbers(queue.claim(max_messages=5)) == [1]


def test_a_lease_lasts_at_most_as_long_as_the_group_configures(world: World) -> None:
    queue = open_queue(world, claim_idle_ms=2000)
    queue.publish({"n": 1})
    queue.claim(lease=0.05)
    time.sleep(0.08)
    assert queue.claim(lease=0.05).message.deliveries == 2
    with pytest.raises(Unsupported, match="'streams' has no lease of more than claim_idle_ms=2000"):
        queue.claim(lease=3)


def test_a_lease_that_lost_one_message_is_lost_as_a_whole_and_nothing_changes(world: World) -> None:
    queue = open_queue(world, claim_idle_ms=30, block_ms=50)
    queue.publish_many({"n": number} for number in range(3))
    lease = queue.claim(max_messages=3)
    time.sleep(0.05)
    taken = queue.claim_stale(count=1)
    with pytest.raises(LeaseLost):
        queue.extend(lease)
    with pytest.raises(LeaseLost):
        queue.ack(lease)
    assert world.client.xpending(KEY, GROUP)["pending"] == 3
    assert queue.ack(lease, lease.messages).outcomes == (Outcome.LOST, Outcome.SETTLED, Outcome.SETTLED)
    assert queue.ack(taken[0]).settled == 1


def test_a_waiting_claim_gets_messages_that_become_stale_during_the_wait(world: World) -> None:
    queue = open_queue(world, claim_idle_ms=200)
    queue.publish({"n": 1})
    queue.claim()
    began = time.monotonic()
    assert queue.claim(wait=PATIENCE_S).message.deliveries == 2
    assert time.monotonic() - began < PATIENCE_S / 2


def test_an_entry_deleted_while_it_was_pending_is_forgotten(world: World) -> None:
    queue = open_queue(world)
    gone, kept = queue.publish({"n": 1}).id, queue.publish({"n": 2}).id
    queue.nack(queue.claim(max_messages=2))
    world.client.xdel(KEY, gone)
    lease = queue.claim(max_messages=2)
    assert [message.id for message in lease.messages] == [kept]
    queue.ack(lease)
    assert queue.claim() is None
    assert queue.stats()[:4] == (0, 0, 0, 0)


def test_a_malformed_entry_raises_only_when_its_payload_is_read(world: World) -> None:
    queue = open_queue(world)
    queue.publish({"n": 1})
    world.client.xadd(KEY, {"wrong": "field"})
    lease = queue.claim(max_messages=5)
    assert lease.messages[0].payload == {"n": 1}
    with pytest.raises(Exception, match="not valid for its kind"):
        _ = lease.messages[1].payload
    assert queue.ack(lease).settled == 2


def test_trimming_deletes_only_acknowledged_entries(world: World) -> None:
    queue = open_queue(world)
    queue.publish_many({"n": number} for number in range(1206))
    assert queue.trim() == 0
    held = queue.claim(max_messages=1205)
    assert queue.trim() == 0
    queue.ack(held)
    assert queue.trim() == 1205
    assert world.client.xlen(KEY) == queue.backlog().ready == 1


def test_trimming_stops_at_entries_that_a_slower_group_still_needs(world: World) -> None:
    fast, slow = (world.make("StreamQueue", "q", QueueConfig.named("q", group)) for group in ("fast", "slow"))
    fast.publish_many({"n": number} for number in range(6))
    fast.ack(fast.claim(max_messages=6))
    held = slow.claim(max_messages=4)
    assert fast.trim() == 0
    slow.ack(held, held.messages[:2])
    assert fast.trim() == 2
    slow.ack(held)
    assert fast.trim() == 2
    assert numbers(slow.claim(max_messages=5)) == [4, 5]


def test_purging_skips_ready_entries_for_one_group_and_keeps_them_for_others(world: World) -> None:
    queue = open_queue(world)
    other = world.make("StreamQueue", "q", QueueConfig.named("q", "second"))
    queue.publish_many({"n": number} for number in range(2400))
    queue.nack(queue.claim(max_messages=10))
    held = queue.claim(max_messages=1)
    assert queue.admin.purge("ready") == 2399
    assert queue.claim() is None
    assert queue.ack(held).settled == 1
    assert other.backlog().ready == 2400
    queue.publish({"n": 1})
    assert queue.backlog().ready == 1


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda queue: queue.publish({}, dedup_key="k"), "dedup"),
        (lambda queue: queue.publish({}, delay=1), "delay"),
        (lambda queue: queue.publish({}, headers={"a": "b"}), "headers"),
        (lambda queue: queue.publish_many([{}], dedup_key=str), "dedup"),
        (lambda queue: queue.claim(lease_id="mine"), "leases under an id that the caller chose"),
        (lambda queue: queue.claim(max_messages=4001), "leases of more than 4,000 messages"),
        (lambda queue: queue.nack(None, delay=1), "delay"),
        (lambda queue: queue.admin.dead_letters(), "dead letters"),
        (lambda queue: queue.admin.redrive(), "dead letters"),
        (lambda queue: queue.admin.purge("dead"), "dead_letters"),
    ],
)
def test_an_option_that_streams_do_not_support_is_refused_before_anything_is_sent(
    world: World, call: Callable[[Any], Any], what: str
) -> None:
    with pytest.raises(Unsupported, match=f"'streams' has no {what}"):
        call(open_queue(world))
    assert world.client.keys() == []


def test_a_queue_on_the_stream_of_its_name_is_registered_for_tools_and_others_are_not(world: World) -> None:
    open_queue(world).publish({"n": 1})
    world.make("StreamQueue", QueueConfig("elsewhere", "g", "c")).publish({"n": 1})
    assert world.client.smembers("rmq:queues:streams") == world.client.smembers("rmq:queues") == {b"q"}


@pytest.mark.parametrize("key", ["plain", "tagged:{t}:s", "rmq:{q}:stream"])
def test_every_key_is_in_the_slot_of_the_stream(world: World, key: str) -> None:
    queue = world.make("StreamQueue", QueueConfig(key, "g", "c"))
    queue.publish({"n": 1})
    queue.ack(queue.claim())
    keys = [name for name in world.client.keys("*") if not name.startswith(b"rmq:queues")]
    assert len(keys) > 1
    assert {key_slot(name) for name in keys} == {key_slot(key.encode())}


def test_after_redis_was_emptied_a_claim_says_what_to_do_and_leases_are_lost(world: World) -> None:
    queue = world.open("streams", "q")
    queue.publish_many([{"n": n} for n in range(3)])
    lease = queue.claim(max_messages=2)
    world.client.flushdb()
    assert queue.ack(lease, lease.messages).outcomes == (Outcome.LOST, Outcome.LOST)
    for settle in (queue.ack, queue.nack, queue.release, queue.extend):
        with pytest.raises(LeaseLost):
            settle(lease)
    assert queue.extend_all([(lease, 1)]) == [False]
    queue.publish({"n": 4})
    for wait in (0, 0.1):
        with pytest.raises(QueueError, match=r"NOGROUP.*make a new queue object .*XGROUP CREATE rmq:\{q\}:stream rmq"):
            queue.claim(wait=wait)
    getattr(queue, "inner", queue)._engine.unanswered.append("~a/1.2")
    queue.close()
    assert world.open("streams", "q").claim().message.payload == {"n": 4}
