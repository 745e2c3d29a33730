"""Rare errors with serious effects: each of these once lost, duplicated or stranded a message somewhere."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from typing import Any

import pytest

from rmq_core.errors import CleanupFailedError, QueueDrainedError
from tests.core.redis_message_queue.behind import dead, eventually, expire, in_hand, spoil, waiting
from tests.core.redis_message_queue.handlers import abandon, handle
from tests.core.redis_message_queue.places import Real
from tests.core.redis_message_queue.recorder import Recorder
from tests.core.redis_message_queue.worlds import SyncWorld, World


def publish_for_ever(queue: Any) -> None:
    while True:
        queue.publish("x")


def test_draining_from_a_signal_handler_that_interrupts_a_publish_does_not_deadlock(redis_url: str) -> None:
    with SyncWorld(Real(redis_url)) as world:
        queue, drained = world.queue(deduplication=False), []
        before = signal.signal(signal.SIGALRM, lambda *_: drained.append(queue.drain(timeout=1)))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(QueueDrainedError):
                publish_for_ever(queue)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert len(drained) == 1


def test_a_heartbeat_that_cannot_start_loses_no_message(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with SyncWorld(Real(redis_url)) as world:
        queue = world.queue(heartbeat_interval_seconds=1)
        queue.publish("x")
        began = False
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            try:
                with queue.process_message():
                    began = True
            except RuntimeError:
                assert not began
        if not began:
            expire(world)
            with world.glance().process_message() as message:
                assert message == "x"
        assert in_hand(world) == 0


def test_a_gateway_does_not_keep_its_queues_alive(no_world: World) -> None:
    gateway = no_world.gateway()
    recorder = Recorder(no_world)
    queue = no_world.call(no_world.module.RedisMessageQueue, "q", gateway=gateway, on_event=recorder.callback)
    gone = weakref.ref(queue)
    del queue
    eventually(lambda: gc.collect() is not None and gone() is None)


def test_tokens_stay_exact_beyond_53_bits(world: World) -> None:
    world.inspector.set("rmq:{q}:fence", 2**53)
    verbs = world.blocking(world.gateway())
    for text in "ab":
        verbs.add_message("q::pending", text)
    first, second = (verbs.wait_for_message_and_move("q::pending", "q::processing") for _ in range(2))
    assert first.lease_token != second.lease_token
    assert verbs.remove_message("q::processing", first.stored_message, lease_token=first.lease_token) is True
    assert in_hand(world) == 1
    assert verbs.remove_message("q::processing", second.stored_message, lease_token=second.lease_token) is True


def test_a_dead_letter_event_contains_the_message_and_its_delivery_count(world: World) -> None:
    recorder = Recorder(world)
    queue = world.glance(max_delivery_count=2, dead_letter_queue="q::dlq", queue={"on_event": recorder.callback})
    queue.publish("x")
    for _ in range(2):
        abandon(queue)
        expire(world)
    with queue.process_message() as message:
        assert message is None
    claims = [event for event in recorder.events if event.operation == "claim"]
    assert [event.delivery_count for event in claims] == [1, 2]
    event = recorder.only("dlq")
    assert event.message_id == claims[0].message_id
    assert (event.delivery_count, event.max_delivery_count) == (2, 2)


def test_a_cleanup_error_names_its_message_and_queue(one_world: World) -> None:
    recorder = Recorder(one_world)
    queue = one_world.queue(on_event=recorder.callback, enable_completed_queue=True)
    queue.publish("x")
    with pytest.raises(CleanupFailedError) as caught:
        handle(queue, lambda: spoil(one_world))
    assert recorder.steps[-1] == "cleanup_failed/failure"
    assert recorder.events[-1].error is caught.value.__cause__
    error: Any = caught.value
    assert (error.queue, error.message_id) == ("q", recorder.only("claim").message_id)


def test_a_dead_letter_in_any_script_survives_a_redrive_by_a_client_that_does_not_decode(world: World) -> None:
    queue = world.glance(client=world.client(decode_responses=False), max_delivery_count=1, dead_letter_queue="q::dlq")
    queue.publish("größe 日本")
    abandon(queue)
    expire(world)
    with queue.process_message() as message:
        assert message is None
    assert dead(world) == ["größe 日本"]
    assert queue.peek(source="dead_letter") == ["größe 日本".encode()]
    assert queue.redrive_dead_letters() == 1
    with queue.process_message() as message:
        assert message == "größe 日本".encode()


def test_a_full_server_redelivers_what_a_dead_consumer_held(one_world: World) -> None:
    queue = one_world.glance()
    queue.publish("x")
    abandon(queue)
    expire(one_world)
    one_world.inspector.config_set("maxmemory-policy", "noeviction")
    one_world.inspector.config_set("maxmemory", 1)
    try:
        with queue.process_message() as message:
            assert message == "x"
    finally:
        one_world.inspector.config_set("maxmemory", 0)
    assert (waiting(one_world), in_hand(one_world)) == ([], 0)
