"""Waiting blocks in Redis with BLMOVE; nothing that it moves is ever lost."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
import redis

from rmq_core import RedisSettings, ReliableQueue
from rmq_core.asyncio import ReliableQueue as AsyncQueue
from rmq_core.reliable import ReliableConfig
from tests.core.leases import PATIENCE_S, blocked, eventually, eventually_later
from tests.core.reliable.bench import KEYS, payloads, processing, worker
from tests.core.worlds import World


def test_waiting_times_out_without_work(world: World) -> None:
    queue, began = worker(world), time.monotonic()
    assert queue.claim(wait=0.05) is None
    assert time.monotonic() - began > 0.04
    assert processing(world) == []


def test_a_waiting_claim_blocks_in_redis_and_takes_the_next_message(world: World) -> None:
    queue = worker(world)
    waiting = world.in_background(queue.claim, wait=PATIENCE_S)
    blocked(world, 1)
    eventually(lambda: "blmove" in {client["cmd"] for client in world.client.client_list()})
    worker(world, "other").publish("a")
    lease = waiting.result(PATIENCE_S)
    assert (lease.message.payload, len(processing(world))) == ("a", 1)
    assert queue.ack(lease).settled == 1


def test_several_waiting_claims_of_one_worker_get_a_message_each(world: World) -> None:
    queue = worker(world)
    waiting = [world.in_background(queue.claim, wait=PATIENCE_S) for _ in range(4)]
    blocked(world, 4)
    worker(world, "other").publish_many(["a", "b", "c", "d"])
    found = [claim.result(PATIENCE_S) for claim in waiting]
    assert sorted(payloads(lease.message for lease in found)) == ["a", "b", "c", "d"]
    assert sum(queue.ack(lease).settled for lease in found) == 4
    assert processing(world) == []


def test_a_wait_continues_beyond_the_read_timeout_of_the_client(world: World) -> None:
    settings = RedisSettings.from_url(world.url + "?socket_timeout=0.3")
    queue = world.open("reliable", settings=settings)
    waiting = world.in_background(queue.claim, wait=PATIENCE_S)
    blocked(world, 1)
    time.sleep(0.5)
    assert not waiting.done()
    worker(world, "other").publish("a")
    assert waiting.result(PATIENCE_S).message.payload == "a"


def test_a_client_that_cannot_block_polls(redis_client: redis.Redis, server_url: str) -> None:
    class Wrapped(redis.Redis):
        def execute_command(self, *args: Any, **options: Any) -> Any:
            assert not args[0].startswith("BL")
            return super().execute_command(*args, **options)

    with Wrapped.from_url(server_url) as client, ReliableQueue(client, "q", ReliableConfig(worker="w")) as queue:
        assert queue.claim(wait=0.05) is None
        threading.Timer(0.1, lambda: ReliableQueue(redis_client, "q").publish("a")).start()
        lease = queue.claim(wait=PATIENCE_S)
        assert lease is not None
        assert (lease.message.payload, queue.ack(lease).settled) == ("a", 1)


def test_a_message_moved_for_a_dead_client_goes_to_the_next_claim_of_that_worker(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b"])
    world.client.lmove(KEYS.queue, KEYS.processing("w"), "RIGHT", "LEFT")
    first = queue.claim()
    assert (first.message.payload, first.message.deliveries) == ("a", 1)
    assert queue.claim().message.payload == "b"
    assert queue.ack(first).settled == 1


async def test_a_cancelled_wait_loses_nothing(redis_client: redis.Redis, server_url: str) -> None:
    async with AsyncQueue(server_url, "q", ReliableConfig(worker="w")) as queue:
        waiting = asyncio.create_task(queue.claim(wait=PATIENCE_S))
        await eventually_later(lambda: asyncio.sleep(0, redis_client.info("clients")["blocked_clients"]))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await queue.publish("a")
        lease = await queue.claim(wait=PATIENCE_S)
        assert lease is not None
        assert (lease.message.payload, (await queue.ack(lease)).settled) == ("a", 1)


async def test_closing_releases_what_a_cancelled_wait_may_have_moved(
    redis_client: redis.Redis, server_url: str
) -> None:
    queue = AsyncQueue(server_url, "q", ReliableConfig(worker="w"))
    waiting = asyncio.create_task(queue.claim(wait=PATIENCE_S))
    await eventually_later(lambda: asyncio.sleep(0, redis_client.info("clients")["blocked_clients"]))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await queue.publish("a")
    redis_client.lmove(KEYS.queue, KEYS.processing("w"), "RIGHT", "LEFT")
    await queue.close()
    assert (redis_client.llen(KEYS.queue), redis_client.exists(KEYS.processing("w"), KEYS.claims("w"))) == (1, 0)


def test_a_claim_without_a_reply_is_resumed(world: World) -> None:
    queue = worker(world)
    queue.publish_many(["a", "b"])
    engine = getattr(queue, "inner", queue)._engine
    lease = queue.claim()
    engine.unanswered[lease.token] = "w"
    again = queue.claim(max_messages=5)
    assert (again.token, payloads(again.messages)) == (lease.token, ["a"])
    assert queue.claim().message.payload == "b"
