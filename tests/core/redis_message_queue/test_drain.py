"""Draining a queue object: it accepts nothing more, and does not touch what others hold in Redis."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
import redis.asyncio

import rmq_core.asyncio
from rmq_core import ConfigurationError
from rmq_core.errors import QueueBackpressureError, QueueDrainedError
from tests.core.redis_message_queue.behind import PATIENCE_S, eventually, in_hand, waiting
from tests.core.redis_message_queue.gateways import foreign
from tests.core.redis_message_queue.handlers import handle
from tests.core.redis_message_queue.places import Fake, Real
from tests.core.redis_message_queue.recorder import Recorder
from tests.core.redis_message_queue.worlds import SyncWorld, World


def names_of(world: World) -> list[str]:
    return ["drain", "close"] if world.flavour == "sync" else ["drain", "aclose"]


def test_a_drained_queue_refuses_to_publish_and_to_claim(world: World) -> None:
    for name in names_of(world):
        queue = world.queue()
        queue.publish(f"before {name}")
        assert getattr(queue, name)() is True
        with pytest.raises(QueueDrainedError, match="queue is drained"):
            queue.publish("after")
        with queue.process_message() as message:
            assert message is None
        assert repr(getattr(queue, "inner", queue)) == "<RedisMessageQueue name='q' drained=True>"
    assert waiting(world) == [f"before {name}" for name in names_of(world)]


def test_a_new_queue_over_the_same_keys_continues(world: World) -> None:
    old = world.queue()
    old.publish("x")
    old.drain()
    queue = world.queue()
    assert queue.publish("y")
    with queue.process_message() as message:
        assert message == "x"


def test_draining_stores_nothing_in_redis(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    before = set(world.inspector.keys("*"))
    queue.drain()
    assert set(world.inspector.keys("*")) == before
    assert waiting(world) == ["x"]


def test_draining_does_not_end_a_handler_that_is_at_work(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    with queue.process_message() as message:
        assert queue.drain(timeout=1) is True
        assert (message, in_hand(world)) == ("x", 1)
    assert in_hand(world) == 0


@pytest.mark.parametrize("wrong", [True, "1", object()], ids=["bool", "text", "object"])
def test_a_timeout_that_is_no_number_is_a_type_error(no_world: World, wrong: object) -> None:
    queue = no_world.queue()
    for name in names_of(no_world):
        with pytest.raises(TypeError, match="timeout"):
            getattr(queue, name)(wrong)


def test_a_negative_timeout_is_a_configuration_error(no_world: World) -> None:
    queue = no_world.queue()
    for name in names_of(no_world):
        with pytest.raises(ConfigurationError, match="timeout"):
            getattr(queue, name)(timeout=-1)


def test_draining_waits_for_a_publish_in_progress() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def publish(*_: object) -> bool:
        begun.set()
        return go_on.wait(PATIENCE_S)

    with SyncWorld(Fake()) as world:
        gateway, _ = foreign(world, publish_message=publish)
        queue = world.queue(gateway=gateway)
        published = world.in_background(queue.publish, "x")
        assert begun.wait(PATIENCE_S)
        drained = world.in_background(queue.drain)
        time.sleep(0.05)
        assert not drained.done()
        go_on.set()
        assert (published.result(), drained.result()) == (True, True)


async def test_draining_waits_for_a_publish_task_in_progress() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    class Slow(rmq_core.redis_message_queue.asyncio.RedisGateway):
        async def publish_message(self, queue: str, message: str, dedup_key: str) -> bool:
            begun.set()
            return await go_on.wait()

    async with Fake().async_client() as client:
        queue = rmq_core.asyncio.RedisMessageQueue("q", gateway=Slow(redis_client=client))
        published = asyncio.create_task(queue.publish("x"))
        await begun.wait()
        drained = asyncio.create_task(queue.drain())
        await asyncio.sleep(0.05)
        assert not drained.done()
        go_on.set()
        assert await asyncio.gather(published, drained) == [True, True]


def test_a_publisher_that_waits_for_room_does_not_hold_up_draining(world: World) -> None:
    queue = world.queue(
        max_pending_length=1, pending_overload_policy="block", pending_overload_block_timeout_seconds=900
    )
    queue.publish("a")
    blocked = world.in_background(queue.publish, "b")
    time.sleep(0.1)
    world.in_background(queue.drain, PATIENCE_S).result(PATIENCE_S)
    with pytest.raises((QueueDrainedError, QueueBackpressureError)):
        blocked.result(PATIENCE_S)
    assert waiting(world) == ["a"]


def test_a_waiting_consumer_claims_nothing_more_once_its_queue_is_drained(world: World) -> None:
    queue, publisher = world.queue(gateway=world.gateway(message_wait_interval_seconds=900)), world.queue()
    consumer = world.in_background(handle, queue)
    time.sleep(0.2)
    assert queue.drain(timeout=PATIENCE_S) is True
    publisher.publish("x")
    assert consumer.result(PATIENCE_S) is None
    assert (waiting(world), in_hand(world)) == (["x"], 0)


def test_queues_may_be_drained_from_several_threads_at_once(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    results = [world.in_background(queue.drain, PATIENCE_S) for _ in range(6)]
    assert [result.result() for result in results] == [True] * 6


def test_draining_from_within_on_event_does_not_deadlock(redis_url: str) -> None:
    queues: list[Any] = []
    with SyncWorld(Real(redis_url)) as world:
        recorder = Recorder(world, also=lambda _: queues[0].drain(timeout=1))
        queues.append(world.queue(on_event=recorder.callback))
        assert world.in_background(queues[0].publish, "x").result(PATIENCE_S) is True
        with pytest.raises(QueueDrainedError):
            queues[0].publish("y")


async def test_draining_from_within_an_async_on_event_does_not_deadlock(redis_url: str) -> None:
    async with redis.asyncio.Redis.from_url(redis_url) as client:

        async def drain(_: object) -> None:
            await queue.drain(timeout=1)

        queue = rmq_core.asyncio.RedisMessageQueue("q", client=client, on_event=drain)
        async with asyncio.timeout(PATIENCE_S):
            assert await queue.publish("x")
        with pytest.raises(QueueDrainedError):
            await queue.publish("y")


async def test_a_loop_over_a_drained_async_queue_lets_other_tasks_run(redis_url: str) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async with redis.asyncio.Redis.from_url(redis_url) as client:
        queue = rmq_core.asyncio.RedisMessageQueue("q", client=client)
        await queue.drain()
        other = asyncio.create_task(tick())
        for _ in range(20):
            async with queue.process_message() as message:
                assert message is None
        other.cancel()
    assert ticks >= 20


def test_draining_emits_no_events(world: World) -> None:
    recorder = Recorder(world)
    queue = world.queue(on_event=recorder.callback)
    queue.drain()
    assert recorder.events == []


def test_refused_publishes_store_nothing_however_many_race_with_the_drain(world: World) -> None:
    queue = world.queue(deduplication=False)
    accepted: list[bool] = []

    def publish() -> None:
        try:
            while True:
                accepted.append(queue.publish("x"))
        except QueueDrainedError:
            pass

    publishers = [world.in_background(publish) for _ in range(2)]
    eventually(lambda: len(accepted) > 5)
    assert queue.drain(timeout=PATIENCE_S) is True
    count = len(waiting(world))
    for publisher in publishers:
        publisher.result()
    assert len(waiting(world)) == count == len(accepted)
