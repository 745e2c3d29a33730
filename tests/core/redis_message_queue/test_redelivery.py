"""Messages that were claimed and never finished: redelivered after the visibility timeout, dead after too many
deliveries, or lost without a timeout."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis

from rmq_core import LeasedQueue, RedisMessageQueue
from tests.core.redis_message_queue.behind import dead, eventually, expire, in_hand, waiting
from tests.core.redis_message_queue.handlers import handle
from tests.core.redis_message_queue.worlds import World

AT_MOST_ONCE: dict[str, Any] = {"visibility_timeout_seconds": None, "max_delivery_count": None}


class Crash(KeyboardInterrupt):
    """An exception that ends a process while it holds a message."""


def crash(queue: Any) -> Any:
    """Claim a message, die with it, and return which it was."""
    seen: list[Any] = []
    with pytest.raises(Crash), queue.process_message() as message:
        die_with(seen, message)
    return seen[0]


def die_with(seen: list[Any], message: Any) -> None:
    seen.append(message)
    raise Crash


def test_the_message_of_a_crashed_consumer_is_redelivered_after_the_timeout(world: World) -> None:
    queue = world.glance(message_visibility_timeout_seconds=1)
    queue.publish("x")
    began = time.monotonic()
    assert crash(queue) == "x"
    assert eventually(lambda: handle(queue)) == "x"
    assert time.monotonic() - began > 0.95
    assert handle(queue) is None


def test_the_timeout_is_five_minutes_by_default(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    crash(queue)
    scores = [score for key in world.inspector.keys("*") if world.inspector.type(key) == b"zset" and b"lease" in key
              for _, score in world.inspector.zrange(key, 0, -1, withscores=True)]  # fmt: skip
    assert [290_000 < score - time.time() * 1000 <= 300_500 for score in scores] == [True]


def test_expired_messages_precede_fresh_ones_in_their_order(world: World) -> None:
    queue = world.glance()
    for n in range(5):
        queue.publish(f"m{n}")
    assert [crash(queue) for _ in range(3)] == ["m0", "m1", "m2"]
    expire(world)
    assert [handle(queue) for _ in range(5)] == ["m0", "m1", "m2", "m3", "m4"]


def test_a_redelivered_message_may_follow_younger_ones_that_are_finished(world: World) -> None:
    queue = world.glance()
    for n in range(3):
        queue.publish(f"m{n}")
    assert crash(queue) == "m0"
    assert handle(queue) == "m1"
    expire(world)
    assert [handle(queue), handle(queue), handle(queue)] == ["m0", "m2", None]


def test_order_is_kept_however_many_messages_expire_together(world: World) -> None:
    queue = world.glance()
    for n in range(250):
        queue.publish(f"m{n}")
    assert [crash(queue) for _ in range(250)][-1] == "m249"
    expire(world)
    assert [handle(queue) for _ in range(250)] == [f"m{n}" for n in range(250)]


def test_a_message_that_was_delivered_too_often_becomes_a_dead_letter(world: World) -> None:
    queue = world.glance(max_delivery_count=2, dead_letter_queue="q::dlq")
    queue.publish("poison")
    queue.publish("good")
    assert crash(queue) == "poison"
    expire(world)
    assert crash(queue) == "poison"
    expire(world)
    assert handle(queue) == "good"
    assert (dead(world), waiting(world), in_hand(world)) == (["poison"], [], 0)


def test_with_a_delivery_limit_of_one_a_message_is_delivered_once(world: World) -> None:
    queue = world.glance(max_delivery_count=1, dead_letter_queue="q::dlq")
    queue.publish("x")
    crash(queue)
    expire(world)
    assert handle(queue) is None
    assert dead(world) == ["x"]


def test_ten_deliveries_are_the_default(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    for _ in range(10):
        assert crash(queue) == "x"
        expire(world)
    queue.publish("next")
    assert handle(queue) == "next"
    assert dead(world) == ["x"]


def test_without_a_delivery_limit_a_message_is_redelivered_forever(world: World) -> None:
    queue = world.queue(max_delivery_count=None)
    queue.publish("x")
    for _ in range(15):
        assert crash(queue) == "x"
        expire(world)
    assert handle(queue) == "x"
    assert dead(world) == []


def test_a_finished_message_leaves_no_delivery_count(world: World) -> None:
    queue = world.glance(queue={"deduplication": False}, max_delivery_count=2, dead_letter_queue="q::dlq")
    for _ in range(4):
        queue.publish("same")
        assert handle(queue) == "same"
    assert dead(world) == []


def test_a_lowered_delivery_limit_applies_to_claimed_messages(world: World) -> None:
    generous = world.queue(max_delivery_count=10)
    generous.publish("x")
    for _ in range(3):
        crash(generous)
        expire(world)
    strict = world.glance(max_delivery_count=2, dead_letter_queue="q::dlq")
    assert handle(strict) is None
    assert dead(world) == ["x"]


def test_a_lowered_delivery_limit_applies_to_pending_messages(world: World) -> None:
    generous = world.queue(max_delivery_count=10)
    for text in ("x", "y"):
        generous.publish(text)
    for _ in range(3):
        assert [crash(generous), crash(generous)] == ["x", "y"]
        expire(world)
    assert handle(generous) == "x"  # and `y` is pending again
    assert handle(world.glance(max_delivery_count=3, dead_letter_queue="q::dlq")) is None
    assert dead(world) == ["y"]


def test_poison_messages_do_not_hold_up_the_good_one_behind_them(world: World) -> None:
    queue = world.glance(max_delivery_count=1, dead_letter_queue="q::dlq")
    for n in range(120):
        queue.publish(f"poison {n}")
    for _ in range(120):
        crash(queue)
    queue.publish("good")
    expire(world)
    assert handle(queue) == "good"
    assert sorted(dead(world)) == sorted(f"poison {n}" for n in range(120))


def test_a_delivery_is_counted_at_the_claim_not_when_the_handler_begins(world: World) -> None:
    gateway = world.gateway(max_delivery_count=1, dead_letter_queue="q::dlq")
    queue = world.queue(gateway=gateway)
    queue.publish("x")
    assert world.blocking(gateway).wait_for_message_and_move(queue.key.pending, queue.key.processing)
    expire(world)
    assert handle(queue) is None
    assert dead(world) == ["x"]


def test_a_failed_handler_causes_no_redelivery(world: World) -> None:
    queue = world.glance(max_delivery_count=1, dead_letter_queue="q::dlq")
    queue.publish("x")
    with pytest.raises(ZeroDivisionError), queue.process_message():
        raise ZeroDivisionError
    expire(world)
    assert handle(queue) is None
    assert (dead(world), in_hand(world)) == ([], 0)


def test_dead_letters_with_identical_payloads_stay_separate(world: World) -> None:
    queue = world.glance(queue={"deduplication": False}, max_delivery_count=1, dead_letter_queue="q::dlq")
    for _ in range(2):
        queue.publish("same")
        crash(queue)
    expire(world)
    assert handle(queue) is None
    assert dead(world) == ["same", "same"]


def test_at_most_once_means_that_a_crash_loses_the_message(world: World) -> None:
    queue = world.glance(message_visibility_timeout_seconds=None)
    queue.publish("x")
    assert crash(queue) == "x"
    assert handle(queue) is None
    assert in_hand(world) == 1


def test_a_consumer_with_a_timeout_does_not_reclaim_what_one_without_a_timeout_claimed(world: World) -> None:
    holder = world.queue(**AT_MOST_ONCE)
    holder.publish("x")
    assert crash(holder) == "x"
    assert handle(world.glance()) is None
    assert in_hand(world) == 1


def test_isolated_messages_of_a_leased_queue_are_counted_as_pending_and_delivered(
    redis_client: redis.Redis,
) -> None:
    with LeasedQueue(redis_client, "q") as leased:
        leased.publish_many([*"abcd"])
        for _ in range(3):
            leases = [lease for _ in range(2) if (lease := leased.claim(max_messages=4))]
            for lease in leases:
                leased.nack(lease)
        assert min(message.deliveries for message in leased.admin.peek(4)) == 3
    queue = RedisMessageQueue("q", client=redis_client, deduplication=False, max_delivery_count=3)
    assert queue.stats().pending == 4
    assert sorted(handle(queue) for _ in range(4)) == [b"a", b"b", b"c", b"d"]
    assert (queue.stats().pending, queue.stats().dead_letter) == (0, 0)
