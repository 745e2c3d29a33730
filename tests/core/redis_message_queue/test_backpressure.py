"""A limit on pending messages: refuse, wait for room, or drop the oldest."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rmq_core import ConfigurationError
from rmq_core.errors import QueueBackpressureError
from tests.core.redis_message_queue.behind import in_hand, waiting
from tests.core.redis_message_queue.worlds import World

DROPPING: dict[str, Any] = {
    "pending_overload_policy": "drop_oldest", "deduplication": False, "max_delivery_count": None,
}  # fmt: skip


def fill(queue: Any, *payloads: str) -> None:
    for payload in payloads:
        assert queue.publish(payload)


@pytest.mark.parametrize("deduplication", [True, False], ids=["dedup", "plain"])
def test_a_full_queue_refuses_and_stores_nothing(world: World, deduplication: object) -> None:
    queue = world.queue(max_pending_length=2, deduplication=deduplication)
    fill(queue, "a", "b")
    with pytest.raises(QueueBackpressureError, match="max_pending_length"):
        queue.publish("c")
    assert waiting(world) == ["a", "b"]


def test_a_refused_message_is_not_a_duplicate_later(world: World) -> None:
    queue = world.queue(max_pending_length=1)
    fill(queue, "a")
    with pytest.raises(QueueBackpressureError):
        queue.publish("b")
    with queue.process_message():
        pass
    assert queue.publish("b")


def test_a_duplicate_is_reported_as_such_even_when_the_queue_is_full(world: World) -> None:
    queue = world.queue(max_pending_length=1)
    fill(queue, "a")
    assert queue.publish("a") is False


def test_a_processed_message_makes_room(world: World) -> None:
    queue = world.queue(max_pending_length=1)
    fill(queue, "a")
    with queue.process_message():
        fill(queue, "b")  # claimed messages do not count
        assert in_hand(world) == 1
    assert waiting(world) == ["b"]


def test_concurrent_publishers_never_exceed_the_limit(world: World) -> None:
    queues = [world.queue(max_pending_length=5) for _ in range(4)]

    def publish(n: int) -> bool:
        try:
            return bool(queues[n % 4].publish(f"m{n}"))
        except QueueBackpressureError:
            return False

    futures = [world.in_background(publish, n) for n in range(24)]
    assert sum(future.result() for future in futures) == 5
    assert len(waiting(world)) == 5


def test_blocking_waits_for_room(world: World) -> None:
    queue = world.queue(
        max_pending_length=1, pending_overload_policy="block", pending_overload_block_timeout_seconds=300
    )
    fill(queue, "a")
    future = world.in_background(queue.publish, "b")
    time.sleep(0.1)
    assert not future.done()
    with world.queue().process_message() as message:
        assert message == "a"
    assert future.result() is True
    assert waiting(world) == ["b"]


def test_a_blocking_publish_times_out(world: World) -> None:
    queue = world.queue(
        max_pending_length=1, pending_overload_policy="block", pending_overload_block_timeout_seconds=0.2
    )
    fill(queue, "a")
    began = time.monotonic()
    with pytest.raises(QueueBackpressureError):
        queue.publish("b")
    assert time.monotonic() - began >= 0.2
    assert waiting(world) == ["a"]


def test_blocking_waits_one_second_by_default(one_world: World) -> None:
    queue = one_world.queue(max_pending_length=1, pending_overload_policy="block")
    fill(queue, "a")
    began = time.monotonic()
    with pytest.raises(QueueBackpressureError):
        queue.publish("b")
    assert 0.9 <= time.monotonic() - began < 60


def test_the_oldest_message_is_dropped_for_the_newest(world: World) -> None:
    queue = world.queue(**DROPPING, max_pending_length=2)
    fill(queue, "a", "b", "c")
    assert waiting(world) == ["b", "c"]


def test_a_gateway_sets_the_limit_of_its_queue(world: World) -> None:
    queue = world.glance(max_pending_length=1)
    fill(queue, "a")
    with pytest.raises(QueueBackpressureError):
        queue.publish("b")


def test_a_limit_that_would_be_ignored_is_refused(one_world: World) -> None:
    for build in (one_world.queue, one_world.gateway):
        with pytest.raises(ConfigurationError, match="max_pending_length"):
            build(pending_overload_policy="block")
