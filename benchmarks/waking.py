"""The time of a message from the publisher's send to its arrival in a waiting process.

The publisher and the waiter are two processes, so they share no interpreter lock, and both read the same monotonic
clock. The waiter alternates between a bare BLMOVE and `queue.claim(wait=...)`. The publisher sends as soon as the
server reports a blocked client. A second row sends some time later, when other work has replaced the contents of the
processor's caches. The time starts when the publisher's client passes its bytes to the socket: the publisher's own
cost is a figure of `loops`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import redis
import redis.asyncio

from benchmarks.figures import Figure, Findings, Spread, percentile
from benchmarks.loops import some
from benchmarks.payloads import payloads
from rmq_core import LeasedQueue
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue

BLOCKS = 5
_STOP, _BARE, _CLAIM = "stop", "bare", "claim"
_PATIENCE_S = 2  # redis-py gives up a reply after 5 s
_NAP_S = 0.01


def measure(port: int, samples: int) -> Findings:
    """Measure p50 and p99 of both façades, divided by those of a BLMOVE through the same kind of client."""
    found = Findings()
    for facade, waiter in (("sync", _wait), ("async", _wait_async)):
        took = _sample(port, waiter, samples)
        found.figures += [_figure(f"wake-up to message in hand, p{rank}, {facade}", rank, *took) for rank in (50, 99)]
        took = _sample(port, waiter, samples // 5, _NAP_S)
        found.figures.append(_figure(f"wake-up after {_NAP_S * 1000:g} ms of idleness, p50, {facade}", 50, *took))
    return found


def _figure(name: str, rank: int, bare_us: list[float], claim_us: list[float]) -> Figure:
    """Return the ratio over all samples, and its spread over BLOCKS parts of the run."""
    whole = percentile(claim_us, rank) / percentile(bare_us, rank)
    size = len(bare_us) // BLOCKS
    parts = Spread.of(
        percentile(claim_us[at : at + size], rank) / percentile(bare_us[at : at + size], rank)
        for at in range(0, size * BLOCKS, size)
    )
    context = f"{percentile(claim_us, rank):,.0f} µs, BLMOVE {percentile(bare_us, rank):,.0f} µs"
    spread = Spread(whole, min(whole, parts.low), max(whole, parts.high))
    return Figure(name, spread, context=context)


def _sample(
    port: int, waiter: Callable[[int, Connection], None], samples: int, nap_s: float = 0
) -> tuple[list[float], list[float]]:
    """Return the microseconds of each wake-up, with BLMOVE and claim in alternation."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=waiter, args=(port, theirs), daemon=True)
    process.start()
    theirs.close()  # so a waiter that dies closes the pipe
    publisher = _Publisher(port, ours)
    for kind in (_BARE, _CLAIM) * 10:
        publisher.wake(kind)
    taken = {_BARE: list[float](), _CLAIM: list[float]()}
    for _ in range(samples):
        for kind, values in taken.items():
            values.append(publisher.wake(kind, nap_s))
    publisher.close()
    process.join()
    return taken[_BARE], taken[_CLAIM]


class _Stamped(redis.Connection):
    """A connection that records when it last sent something."""

    sent_ns = 0

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Record the time, then send."""
        _Stamped.sent_ns = time.monotonic_ns()
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]


class _Publisher:
    """Send a message when the waiter is blocked, and receive the time of its arrival."""

    def __init__(self, port: int, waiter: Connection) -> None:
        self.pool = redis.ConnectionPool(connection_class=_Stamped, port=port)
        self.client, self.waiter = redis.Redis(connection_pool=self.pool), waiter
        self.queue = LeasedQueue(self.client, "waking")

    def wake(self, kind: str, nap_s: float = 0) -> float:
        """Return the microseconds from the send to the arrival of the message."""
        self.waiter.send(kind)
        while not self.client.info("clients")["blocked_clients"]:
            time.sleep(0.0001)
            if self.waiter.poll():
                raise RuntimeError("the waiter ended; its own error is printed above")
        time.sleep(nap_s)
        payload = payloads(1)[0]
        if kind == _BARE:
            self.client.lpush("waking-bare", payload)
        else:
            self.queue.publish(payload)
        arrived: int = self.waiter.recv()
        return (arrived - _Stamped.sent_ns) / 1000

    def close(self) -> None:
        self.waiter.send(_STOP)
        self.queue.close()
        self.pool.disconnect()


def _wait(port: int, publisher: Connection) -> None:
    client = redis.Redis(port=port)
    queue = LeasedQueue(client, "waking")
    while (kind := publisher.recv()) != _STOP:
        if kind == _BARE:
            client.blmove("waking-bare", "waking-held", _PATIENCE_S, "RIGHT", "LEFT")
            publisher.send(time.monotonic_ns())
            client.delete("waking-held")
        else:
            lease = some(queue.claim(wait=_PATIENCE_S))
            _ = lease.message.payload
            publisher.send(time.monotonic_ns())
            queue.ack(lease)


def _wait_async(port: int, publisher: Connection) -> None:
    asyncio.run(_waiting(port, publisher))


async def _waiting(port: int, publisher: Connection) -> None:
    async with redis.asyncio.Redis(port=port) as client, AsyncLeasedQueue(client, "waking") as queue:
        while (kind := publisher.recv()) != _STOP:
            if kind == _BARE:
                await client.blmove("waking-bare", "waking-held", _PATIENCE_S, "RIGHT", "LEFT")
                publisher.send(time.monotonic_ns())
                await client.delete("waking-held")
            else:
                lease = some(await queue.claim(wait=_PATIENCE_S))
                _ = lease.message.payload
                publisher.send(time.monotonic_ns())
                await queue.ack(lease)
