"""Where `on_event` runs, and that nothing it does affects the queue."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
import redis.asyncio

import rmq_core.asyncio
from rmq_core.events import QueueEvent
from tests.core.redis_message_queue.behind import PATIENCE_S, eventually, expire, in_hand
from tests.core.redis_message_queue.handlers import abandon
from tests.core.redis_message_queue.places import Fake, Real
from tests.core.redis_message_queue.recorder import Recorder
from tests.core.redis_message_queue.worlds import SyncWorld, World

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="none")


def fail(_: QueueEvent) -> None:
    raise LookupError("callback")


def test_a_callback_that_raises_warns_without_further_effect(world: World) -> None:
    queue = world.queue(on_event=Recorder(world, also=fail).callback)
    with pytest.warns(RuntimeWarning, match="on_event"):
        assert queue.publish("x")
    with pytest.warns(RuntimeWarning, match="on_event"), queue.process_message() as message:
        assert message == "x"
    assert in_hand(world) == 0


def test_a_sync_callback_that_returns_an_awaitable_warns() -> None:
    async def later() -> None:
        """A coroutine that the queue does not await, and closes so that Python does not warn."""

    with SyncWorld(Fake()) as world:
        queue = world.queue(on_event=lambda _: later())
        with pytest.warns(RuntimeWarning, match="on_event"):
            assert queue.publish("x")


def test_a_sync_callback_runs_in_the_callers_thread_and_context(redis_url: str) -> None:
    seen: list[tuple[int, str]] = []
    with SyncWorld(Real(redis_url)) as world:
        queue = world.queue(on_event=lambda _: seen.append((threading.get_ident(), REQUEST.get())))
        token = REQUEST.set("r1")
        queue.publish("x")
        with queue.process_message():
            REQUEST.set("r2")
        REQUEST.reset(token)
    me = threading.get_ident()
    assert seen == [(me, "r1"), (me, "r1"), (me, "r2")]


async def test_an_async_callback_is_awaited_in_the_callers_task_and_context(redis_url: str) -> None:
    seen: list[tuple[Any, str]] = []

    async def hear(_: QueueEvent) -> None:
        await asyncio.sleep(0)
        seen.append((asyncio.current_task(), REQUEST.get()))

    async with redis.asyncio.Redis.from_url(redis_url) as client:
        queue = rmq_core.asyncio.RedisMessageQueue("q", client=client, on_event=hear)
        REQUEST.set("r1")
        await queue.publish("x")
        async with queue.process_message():
            REQUEST.set("r2")
    task = asyncio.current_task()
    assert seen == [(task, "r1"), (task, "r1"), (task, "r2")]


def test_a_sync_heartbeat_emits_its_events_in_a_thread_without_the_callers_context(redis_url: str) -> None:
    seen: dict[str, tuple[int, str]] = {}

    def hear(event: QueueEvent) -> None:
        seen.setdefault(event.operation, (threading.get_ident(), REQUEST.get()))

    with SyncWorld(Real(redis_url)) as world:
        queue = world.queue(on_event=hear, heartbeat_interval_seconds=0.02)
        queue.publish("x")
        token = REQUEST.set("r1")
        with queue.process_message():
            eventually(lambda: "lease_renew" in seen)
        REQUEST.reset(token)
    assert seen["claim"] == (threading.get_ident(), "r1")
    assert seen["lease_renew"][0] != threading.get_ident()
    assert seen["lease_renew"][1] == "none"


async def test_an_async_heartbeat_emits_its_events_in_the_context_in_which_it_started(redis_url: str) -> None:
    seen: dict[str, tuple[Any, str]] = {}
    renewed = asyncio.Event()

    async def hear(event: QueueEvent) -> None:
        seen.setdefault(event.operation, (asyncio.current_task(), REQUEST.get()))
        if event.operation == "lease_renew":
            renewed.set()

    async with redis.asyncio.Redis.from_url(redis_url) as client:
        queue = rmq_core.asyncio.RedisMessageQueue("q", client=client, on_event=hear, heartbeat_interval_seconds=0.02)
        await queue.publish("x")
        REQUEST.set("r1")
        async with asyncio.timeout(PATIENCE_S), queue.process_message():
            REQUEST.set("r2")
            await renewed.wait()
    assert seen["lease_renew"][0] is not asyncio.current_task()
    assert seen["lease_renew"][1] == "r1"


def test_two_queues_over_one_gateway_emit_their_own_events(world: World) -> None:
    gateway = world.gateway()
    recorders = [Recorder(world), Recorder(world)]
    queues = [
        world.queue(name, gateway=gateway, on_event=recorder.callback)
        for name, recorder in zip("ab", recorders, strict=True)
    ]
    for queue in queues:
        queue.publish("x")
        abandon(queue)
    for name in "ab":
        expire(world, name)
    for queue in queues:
        with queue.process_message() as message:
            assert message == "x"
    for name, recorder in zip("ab", recorders, strict=True):
        assert {event.queue for event in recorder.events} == {name}
        assert recorder.steps.count("claim_reclaim/success") == 1
