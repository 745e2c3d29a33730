"""`process_message`: one message in a `with`, and every way to leave the block."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rmq_core import RedisMessageQueueError
from rmq_core.errors import CleanupFailedError
from tests.core.leases import woken_soon
from tests.core.redis_message_queue.behind import eventually, expire, in_hand, spoil, waiting
from tests.core.redis_message_queue.handlers import handle
from tests.core.redis_message_queue.worlds import World

UNDELIVERABLE = {"visibility_timeout_seconds": None, "max_delivery_count": None}


def test_a_message_is_in_progress_inside_the_block_and_removed_after_it(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    with queue.process_message() as message:
        assert message == "x"
        assert (waiting(world), in_hand(world)) == ([], 1)
    assert (waiting(world), in_hand(world)) == ([], 0)


@pytest.mark.parametrize("settings", [{}, UNDELIVERABLE], ids=["at least once", "at most once"])
def test_an_exception_in_the_block_is_raised_again_and_fails_the_message(world: World, settings: Any) -> None:
    queue = world.queue(**settings)
    queue.publish("x")
    with pytest.raises(ZeroDivisionError), queue.process_message():
        raise ZeroDivisionError
    assert (waiting(world), in_hand(world)) == ([], 0)


@pytest.mark.parametrize("exit_", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_process_exit_in_the_block_leaves_the_message_to_be_redelivered(
    world: World, exit_: type[BaseException]
) -> None:
    queue = world.queue()
    queue.publish("x")
    with pytest.raises(exit_), queue.process_message():
        raise exit_
    assert in_hand(world) == 1
    expire(world)
    with world.queue().process_message() as message:
        assert message == "x"


@pytest.mark.parametrize("protocol", [2, 3])
def test_both_protocol_versions_of_redis_work(world: World, protocol: int) -> None:
    queue = world.queue(client=world.client(protocol=protocol), enable_completed_queue=True)
    assert [queue.publish("x"), queue.publish("x")] == [True, False]
    with queue.process_message() as message:
        assert message == "x"
    assert in_hand(world) == 0


def test_a_message_that_was_reclaimed_meanwhile_is_not_acknowledged_and_warns(world: World) -> None:
    slow, other = world.queue(), world.queue()
    slow.publish("x")
    claimed = other.process_message()
    with pytest.warns(RuntimeWarning, match="lease"):
        handle(slow, lambda: expire(world), claimed.__enter__)
    assert in_hand(world) == 1
    claimed.__exit__(None, None, None)
    assert in_hand(world) == 0


def test_a_deadline_that_passed_unnoticed_does_not_make_an_acknowledgement_stale(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    with queue.process_message():
        expire(world)
    assert (waiting(world), in_hand(world)) == ([], 0)


def test_a_waiting_consumer_gets_a_published_message_at_once(world: World) -> None:
    consumer, publisher = world.queue(), world.queue(deduplication=False)

    def consume() -> tuple[Any, float]:
        with consumer.process_message() as message:
            return message, time.monotonic()

    def attempt() -> float:
        future = world.in_background(consume)
        time.sleep(0.3)
        published = time.monotonic()
        publisher.publish("x")
        message, arrived = future.result()
        assert message == "x"
        return arrived - published

    assert woken_soon(attempt)


def test_each_message_goes_to_one_of_several_consumers(one_world: World) -> None:
    publisher = one_world.queue()
    for n in range(30):
        publisher.publish(f"m{n}")

    def consume() -> list[str]:
        queue, found = one_world.glance(), []
        while message := handle(queue):
            found.append(message)
        return found

    futures = [one_world.in_background(consume) for _ in range(4)]
    assert sorted(message for future in futures for message in future.result()) == sorted(f"m{n}" for n in range(30))


def test_a_cleanup_that_fails_after_success_is_raised_with_its_cause(one_world: World) -> None:
    queue = one_world.queue(enable_completed_queue=True)
    queue.publish("x")
    with pytest.raises(CleanupFailedError) as caught:
        handle(queue, lambda: spoil(one_world))
    assert isinstance(caught.value, RedisMessageQueueError)
    assert isinstance(caught.value.__cause__, Exception)


def test_a_cleanup_that_fails_after_an_exception_does_not_hide_it(one_world: World) -> None:
    queue = one_world.queue(enable_failed_queue=True)
    queue.publish("x")
    with pytest.warns(RuntimeWarning), pytest.raises(ZeroDivisionError):
        handle(queue, lambda: spoil(one_world), error=ZeroDivisionError())


def test_only_the_deduplication_key_of_a_processed_message_remains(world: World) -> None:
    queue = world.queue(deduplication=False)
    queue.publish("first")
    with queue.process_message():
        pass
    before = {key for key in world.inspector.keys("*") if b"slot" not in key}
    for n in range(5):
        queue.publish(f"m{n}")
        with queue.process_message():
            pass
    eventually(lambda: {key for key in world.inspector.keys("*") if b"slot" not in key} <= before)
