"""Helpers of the tests of the leased engine: expiry at once, lost replies, and direct inspection of Redis."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import pytest
import redis

from rmq_core.exchange.frames import unknown_script
from rmq_core.queue import Heartbeat
from tests.core.worlds import World

PATIENCE_S = 300
"""How long a test waits for a condition before it fails."""
SOON_S = 3


def key(name: str, queue: str = "q") -> str:
    """Return the name of a queue's key in Redis."""
    return f"rmq:{{{queue}}}:{name}"


def expire(world: World, lease_id: str, queue: str = "q") -> None:
    """Move the deadline of a lease into the past."""
    assert world.client.zadd(key("leases", queue), {lease_id: 1}, xx=True, ch=True) == 1


def fall_due(world: World, queue: str = "q") -> None:
    """End the delay of every delayed message."""
    members = world.client.zrange(key("delayed", queue), 0, -1)
    assert members
    world.client.zadd(key("delayed", queue), dict.fromkeys(members, 1), xx=True)


def elapse(queue: Any, seconds: int) -> None:
    """Let time pass for a leased queue object: for its ready messages, its history and the records of its programs."""
    client, engine, name, ms = queue.client, queue._engine, queue.name, 1000 * seconds
    if engine.tally:
        engine.tally.next_at = -inf
    queue.stats()  # flushes the counts
    engine.present_at, engine.look_at = dict.fromkeys(engine.present_at, -inf), -inf
    for at, envelope in enumerate(client.lrange(key("ready", name), 0, -1)):
        deliveries, enqueued, rest = envelope.split(b" ", 2)
        client.lset(key("ready", name), at, b"%b %d %b" % (deliveries, int(enqueued) - ms, rest))
    for member in client.zrange(key("clients", name), 0, -1):
        client.zincrby(key("clients", name), -ms, member)
    history = key("history", name)
    for field, text in client.hgetall(history).items():
        if re.match(rb"m\d", field):
            minute, _, counts = text.partition(b" ")
            last = re.search(rb"c=(\d+)", counts)
            minute, left = divmod(int(minute) * 60_000 + int(last[1] if last else 0) - ms, 60_000)
            counts = re.sub(rb"c=\d+", b"c=%d" % left, counts)
            client.hdel(history, field)
            client.hset(history, b"m%d" % (minute % 1440), b"%d %b" % (minute, counts))


def crash(queue: Any, times: int, owner: str | None = None) -> str:
    """Let a message kill its worker so many times, each in a minute of its own; return its id."""
    killer: str = queue.publish("killer").id
    for _ in range(times):
        lease = queue.claim(lease=3600, owner=owner)
        queue.client.zadd(key("leases", queue.name), {lease.id: 1}, xx=True)
        queue.backlog()  # takes it back
        elapse(queue, 60)
    return killer


def payloads(messages: Iterable[Any]) -> list[Any]:
    return [message.payload for message in messages]


def drain(queue: Any) -> list[Any]:
    """Claim and ack everything; return the payloads."""
    found: list[Any] = []
    while lease := queue.claim(max_messages=1000):
        found += payloads(queue.messages(lease))
        queue.ack(lease)
    return found


def snapshot(client: redis.Redis) -> dict[bytes, bytes | None]:
    """Return every key with its value, to check that nothing was written. Omit call slots, which store refusals too."""
    names = (name for name in client.scan_iter(count=1000) if b":slot:" not in name)
    return {name: client.dump(name) for name in names if not name.endswith(b":clients")}


def eventually(condition: Callable[[], Any]) -> Any:
    """Return the result of `condition` once it is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "this never happened"
        time.sleep(0.002)
    return found


async def eventually_later(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Do the same as `eventually` for a condition that must be awaited."""
    async with asyncio.timeout(PATIENCE_S):
        found = await condition()
        while not found:
            await asyncio.sleep(0.002)
            found = await condition()
        return found


def woken_soon(attempt: Callable[[], float]) -> bool:
    """Return whether one of ten attempts takes less than 3 s: waiting claims poll at least every 5 s.

    If the event wakes no claim, every attempt takes 5 s; if the machine hangs for a moment, only one or two do.
    """
    return any(attempt() < SOON_S for _ in range(10))


@contextmanager
def frequent_heartbeats() -> Iterator[None]:
    """Send heartbeats 20 times a second, whatever the duration of the leases that they extend.

    So a test need not use a short lease, which expires whenever the machine hangs for longer than the lease lasts.
    """
    renewed = Heartbeat.renewed

    def soon(heartbeat: Heartbeat[Any], now: float) -> None:
        renewed(heartbeat, now)
        heartbeat.next_at = now + 0.05

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Heartbeat, "renewed", soon)
        yield


def kept(lease: Any, lease_s: float) -> None:
    """Wait until a heartbeat that is sent from now on has extended a lease."""
    now = time.monotonic()
    eventually(lambda: lease.state.until >= now + lease_s)


def blocked(world: World, count: int) -> None:
    """Wait until `count` clients block in Redis."""
    eventually(lambda: world.client.info("clients")["blocked_clients"] >= count)


def engine_of(queue: Any) -> Any:
    return getattr(queue, "inner", queue)._engine


def driver_of(queue: Any) -> Any:
    return getattr(queue, "inner", queue)._driver


def share_of(queue: Any) -> Any:
    """Return the share that a queue has of its client's pool (`rmq_core.exchange.pools`)."""
    return driver_of(queue)._held[1]


def run(world: World, queue: Any, *wants: Any) -> Any:
    """Send requests one by one, as an operation of the queue would; return the last reply."""

    def operation() -> Generator[Any, Any, Any]:
        reply = None
        for want in wants:
            reply = yield want
        return reply

    loop = getattr(world, "loop", None)
    return loop.call(driver_of(queue).run, operation()) if loop else driver_of(queue).run(operation())


def handler_of(flavour: str, function: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Return a handler for `run` that calls a blocking function: a coroutine function for asyncio queues."""
    if flavour == "sync":
        return function

    async def handle(given: Any) -> None:
        await asyncio.to_thread(function, given)

    return handle


def slowly(prefix: str, pause_s: float = 0.6) -> Iterator[str]:
    """Yield two full writes of `publish_many`, and after a pause one more message."""
    yield from (f"{prefix}{number}" for number in range(8_000))
    time.sleep(pause_s)
    yield f"{prefix}8000"


def lose_answer(queue: Any, error: BaseException) -> None:
    """Let the next write of the queue take effect in Redis, and raise `error` instead of returning its reply.

    A write whose script the server does not know yet has no effect; the driver repeats it with the script.
    """
    driver = driver_of(queue)
    send = driver._send

    def broken(replies: Any) -> Any:
        if unknown_script(replies):
            return replies
        del driver._send
        raise error

    async def broken_later(*write: Any, **about: Any) -> Any:
        return broken(await send(*write, **about))

    def broken_at_once(*write: Any, **about: Any) -> Any:
        return broken(send(*write, **about))

    driver._send = broken_later if inspect.iscoroutinefunction(send) else broken_at_once
