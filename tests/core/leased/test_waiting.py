"""Waiting blocks in Redis; everything that makes messages ready wakes a waiting claim."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from rmq_core import Lease, LeasedConfig
from rmq_core.asyncio import LeasedQueue as AsyncQueue
from tests.core.leases import (
    PATIENCE_S,
    blocked,
    eventually,
    eventually_later,
    key,
    lose_answer,
    payloads,
    woken_soon,
)
from tests.core.worlds import World

LONG_S = PATIENCE_S


def a_dead_letter(queue: Any) -> None:
    queue.publish("x")
    queue.nack(queue.claim())


def test_waiting_times_out_without_work(world: World) -> None:
    queue = world.queue()
    assert queue.claim(wait=0.02) is None
    assert world.client.zcard(key("waiters")) == 0


PREPARATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "publish": (lambda _: None, lambda queue, _: queue.publish("x")),
    "publish_many": (lambda _: None, lambda queue, _: queue.publish_many(["x", "y"])),
    "redrive": (a_dead_letter, lambda queue, _: queue.admin.redrive()),
    "resume": (lambda queue: (queue.admin.pause(), queue.publish("x")), lambda queue, _: queue.admin.resume()),
    "release": (lambda queue: (queue.publish("x"), queue.claim())[1], lambda queue, lease: queue.release(lease)),
    "nack": (
        lambda queue: (queue.publish_many(["x", "y"]), queue.claim(max_messages=2))[1],
        lambda queue, lease: queue.nack(lease, [lease.messages[0]]),
    ),
    "due delay": (lambda queue: None, lambda queue, _: queue.publish("x", delay=0.05)),
    "due nack": (
        lambda queue: (queue.publish("x"), queue.claim())[1],
        lambda queue, lease: queue.nack(lease, delay=0.05),
    ),
}


@pytest.mark.parametrize("event", list(PREPARATIONS))
def test_everything_that_makes_messages_ready_wakes_a_waiting_claim(world: World, event: str) -> None:
    prepare, happen = PREPARATIONS[event]
    once = LeasedConfig(max_deliveries=1) if event == "redrive" else LeasedConfig()
    actor = world.queue(config=once)
    prepared = prepare(actor)
    waiting = world.in_background(world.queue().claim, wait=LONG_S)
    blocked(world, 1)
    happen(actor, prepared)
    assert waiting.result(PATIENCE_S).message.payload == "x"


def test_a_waiter_is_woken_when_a_lease_expires(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    queue.claim(lease=0.1)
    waiting = world.in_background(world.queue().claim, wait=LONG_S)
    assert waiting.result(PATIENCE_S).message.deliveries == 2


def test_a_waiting_claim_wakes_when_a_lease_that_began_later_expires(world: World) -> None:
    queue = world.queue()
    waiting = world.in_background(world.queue().claim, wait=LONG_S)
    blocked(world, 1)
    world.queue("other").publish("y")
    queue.admin.pause()
    queue.publish_many(["x"])
    queue.admin.resume()
    assert waiting.result(PATIENCE_S).message.payload == "x"
    again = world.in_background(world.queue().claim, wait=LONG_S)
    blocked(world, 1)
    queue.publish("z", delay=3600)
    queue.publish("w", delay=0.1)
    assert again.result(PATIENCE_S).message.payload == "w"


def test_a_timer_that_ended_in_vain_keeps_no_later_message_waiting(world: World) -> None:
    queue = world.queue()

    def attempt() -> float:
        waiting = world.in_background(world.queue().claim, wait=LONG_S)
        blocked(world, 1)
        gone = queue.publish("gone", delay=0.3)
        eventually(lambda: world.client.exists(key("timer")))
        assert queue.admin.cancel(gone.id)
        time.sleep(0.4)
        began = time.monotonic()
        queue.publish("x", delay=0.1)
        queue.ack(waiting.result(LONG_S))
        return time.monotonic() - began

    assert woken_soon(attempt)


def test_only_an_earlier_due_time_wakes_the_waiting_claim_that_holds_the_timer(world: World) -> None:
    """Without the wake-up the waiting claim would poll within five seconds, and get its message too, late."""
    hour = 3_600_000
    due = int(time.time() * 1000) + hour
    world.client.zadd(key("waiters"), {"waiter": due + hour})
    world.client.set(key("timer"), f"{due} waiter")
    queue = world.queue()
    queue.publish("later", delay=7200)
    assert world.client.llen(key("wake")) == 0
    queue.publish("earlier", delay=60)
    assert world.client.llen(key("wake")) == 1


def scripts_run(world: World) -> int:
    return int(world.client.info("commandstats")["cmdstat_evalsha"]["calls"])


def test_of_many_waiting_claims_one_gets_the_message_and_the_others_keep_sleeping(world: World) -> None:
    began = time.monotonic()
    silent = LeasedConfig(history=False)  # a flush of the history is a script, too
    waiting = [world.in_background(world.queue(config=silent).claim, wait=LONG_S) for _ in range(6)]
    blocked(world, 6)
    before = scripts_run(world)
    queue = world.queue(config=silent)
    queue.publish("0")
    (winner,) = eventually(lambda: [waiter for waiter in waiting if waiter.done()])
    assert winner.result().message.payload == "0"
    blocked(world, 5)
    own_polls = 6 * ((time.monotonic() - began) // 5)  # waiting claims poll every 5 s in any case
    polls = scripts_run(world) - before
    assert polls <= 3 + own_polls, "the publish, its claim, and one who polls after the new deadline"
    queue.publish_many([*"12345"])
    rest = sorted(waiter.result(PATIENCE_S).message.payload for waiter in waiting if waiter is not winner)
    assert rest == [*"12345"]


def test_one_batch_wakes_as_many_waiting_claims_as_it_has_messages(world: World) -> None:
    waiting = [world.in_background(world.queue().claim, max_messages=2, wait=LONG_S) for _ in range(4)]
    blocked(world, 4)
    world.queue().publish_many([*"abcdefgh"])
    found = [payloads(waiter.result(PATIENCE_S).messages) for waiter in waiting]
    assert sorted(found) == [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]]


def test_many_delayed_messages_wake_many_waiters(world: World) -> None:
    waiting = [world.in_background(world.queue().claim, wait=LONG_S) for _ in range(4)]
    blocked(world, 4)
    queue = world.queue()
    for n in range(4):
        queue.publish(str(n), delay=0.05 + n / 50)
    assert sorted(waiter.result(PATIENCE_S).message.payload for waiter in waiting) == [*"0123"]


def test_a_waiting_claim_on_a_paused_queue_keeps_waiting(world: World) -> None:
    queue = world.queue()
    queue.admin.pause()
    waiting = world.in_background(world.queue().claim, wait=LONG_S)
    blocked(world, 1)
    queue.publish("x")
    time.sleep(0.05)
    assert not waiting.done()
    queue.admin.resume()
    assert waiting.result(PATIENCE_S).message.payload == "x"


def test_a_waiting_claim_with_an_id_takes_over_what_another_claims_in_the_meantime(world: World) -> None:
    waiting = world.in_background(world.queue().claim, wait=LONG_S, lease_id="job")
    blocked(world, 1)
    queue = world.queue()
    queue.publish("x")
    lease = waiting.result(PATIENCE_S)
    assert (lease.id, payloads(lease.messages)) == ("job", ["x"])


def test_a_waiting_claim_with_an_id_claims_nothing_while_its_process_stands_still(world: World) -> None:
    waiter = "import rmq_core, sys; rmq_core.LeasedQueue(sys.argv[1], 'q').claim(lease_id='job', wait=60)"
    process, queue = subprocess.Popen([sys.executable, "-c", waiter, world.url]), world.queue()
    try:
        blocked(world, 1)
        process.send_signal(signal.SIGSTOP)
        queue.publish("x")
        assert queue.stats()[:3] == (1, 0, 0)
        process.send_signal(signal.SIGCONT)
        assert process.wait(PATIENCE_S) == 0
        assert queue.stats()[:3] == (0, 0, 1)
    finally:
        process.kill()
        process.wait()


def test_a_waiting_claim_interrupted_before_its_reply_finds_its_message_again(world: World) -> None:
    queue = world.queue()
    queue.publish("x")
    lose_answer(queue, SystemExit())
    with pytest.raises(SystemExit):
        queue.claim()
    assert world.queue().claim() is None
    again = queue.claim()
    assert (again.message.payload, again.message.deliveries) == ("x", 1)
    assert queue.claim() is None
    assert queue.ack(again).settled == 1


async def test_a_cancelled_waiter_loses_no_message(async_redis_client: redis.asyncio.Redis) -> None:
    found: list[Any] = []
    async with AsyncQueue(async_redis_client, "q") as queue, AsyncQueue(async_redis_client, "q") as other:
        for attempt in range(8):
            waiting = asyncio.create_task(queue.claim(wait=LONG_S))
            await asyncio.sleep(0.005)
            published = asyncio.create_task(other.publish(str(attempt)))
            await asyncio.sleep(0.0005 * attempt)
            waiting.cancel()
            (lease,) = await asyncio.gather(waiting, return_exceptions=True)
            found += payloads(lease.messages) if isinstance(lease, Lease) else []
            await published
        while len(found) < 8:
            again = await queue.claim(wait=PATIENCE_S)
            assert again is not None
            found += payloads(again.messages)
    assert sorted(found) == [*"01234567"]


async def waiters(client: redis.asyncio.Redis, count: int) -> bool:
    found: int = await client.zcard(key("waiters"))
    return found >= count


async def test_a_live_waiting_claim_is_woken_although_others_died_while_waiting(
    async_redis_client: redis.asyncio.Redis,
) -> None:
    async with AsyncQueue(async_redis_client, "q") as queue, AsyncQueue(async_redis_client, "q") as other:
        dead = [asyncio.create_task(queue.claim(wait=LONG_S)) for _ in range(3)]
        await eventually_later(lambda: waiters(async_redis_client, 3))
        for task in dead:
            task.cancel()
        await asyncio.gather(*dead, return_exceptions=True)
        alive = asyncio.create_task(other.claim(wait=LONG_S))
        await eventually_later(lambda: waiters(async_redis_client, 4))
        await queue.publish("x")
        lease = await asyncio.wait_for(alive, PATIENCE_S)
        assert lease is not None
        assert lease.message.payload == "x"
