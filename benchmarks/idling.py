"""The cost of idle waiters to the server: commands a second, counted by MONITOR.

MONITOR distinguishes the commands of clients from those that scripts run; only the former cost a round trip.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import redis
import redis.asyncio

from benchmarks.figures import Figure, Findings, Spread
from rmq_core import LeasedQueue
from rmq_core.asyncio import WaitHub

WAITS = 100
_MARK = "rmq-benchmarks"


def measure(port: int, seconds: float) -> Findings:
    """Measure an idle `claim(wait=...)`, then a WaitHub with WAITS idle waits, each for `seconds`."""
    found = Findings()
    for name, wait in (("idle waiter", _claim), (f"idle WaitHub of {WAITS} waits", _hub)):
        counted = _count(port, wait, seconds)
        found.figures += [
            Figure(f"{name}, {kind} commands", Spread.of([counted[kind] / seconds]), "/s", f"{seconds:g} s observed")
            for kind in ("client", "script")
        ]
    return found


def _count(port: int, wait: Callable[[int, float], None], seconds: float) -> Counter[str]:
    """Count the commands of clients and of scripts while the wait is idle."""
    waiter = threading.Thread(target=wait, args=(port, seconds + 1.5))
    waiter.start()
    time.sleep(1)
    counted = commands_while(port, seconds)
    waiter.join()
    return counted


def commands_while(port: int, seconds: float) -> Counter[str]:
    """Count the commands of the next `seconds` by their origin: clients or scripts."""
    with redis.Redis(port=port) as client, client.monitor() as monitor:
        client.echo(_MARK)
        time.sleep(seconds)
        client.echo(_MARK)
        return _between_marks(monitor)


def _between_marks(monitor: redis.client.Monitor) -> Counter[str]:
    counted: Counter[str] = Counter()
    marks = 0
    for heard in monitor.listen():  # type: ignore[no-untyped-call]
        if _MARK in heard["command"]:
            marks += 1
        elif marks == 1:
            counted["script" if heard["client_type"] == "lua" else "client"] += 1
        if marks == 2:
            break
    return counted


def _claim(port: int, seconds: float) -> None:
    with redis.Redis(port=port) as client, LeasedQueue(client, "idling") as queue:
        queue.claim(wait=seconds)


def _hub(port: int, seconds: float) -> None:
    asyncio.run(_wait_at_hub(port, seconds))


async def _wait_at_hub(port: int, seconds: float) -> None:
    async with redis.asyncio.Redis(port=port) as client, WaitHub(client) as hub:
        await asyncio.gather(*(_wait_once(hub, seconds) for _ in range(WAITS)))


async def _wait_once(hub: WaitHub, seconds: float) -> None:
    with suppress(TimeoutError):
        await hub.wait("idling", timeout=seconds)
