"""One tree of `benchmarks.against`: it imports RMQ from PYTHONPATH, so it may be older than this file."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from redis.asyncio import Redis

from benchmarks.batches import Batches
from benchmarks.jobs_tally import Clock
from benchmarks.loops import CALLS, Loops, some
from benchmarks.rounds import Contender
from rmq_core import LeasedConfig, LeasedQueue, WorkQueue, open_queue
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue

OTHERS = ("reliable", "rotation", "streams", "jobs")
"""The disciplines of which one row measures publish, claim and ack together."""
TASKS = 50


def main() -> None:
    port, clock, at = int(sys.argv[1]), Clock(int(sys.argv[2])), sys.argv[3]
    loops, batches, awaited = Loops(port), Batches(port), AsyncioRows(port, at)
    own = LeasedQueue(loops.client, f"against-{at}", LeasedConfig(max_deliveries=None))
    others = {discipline: open_queue(loops.client, f"against-{discipline}-{at}", discipline) for discipline in OTHERS}
    queues = (loops.queue, loops.unique, batches.queue, batches.unique, own, *others.values())
    own.publish("a")

    def nack() -> None:
        for _ in range(CALLS):
            own.nack(some(own.claim()))

    def release() -> None:
        for _ in range(CALLS):
            own.release(some(own.claim()))

    def work(queue: WorkQueue) -> None:
        for number in range(CALLS):
            queue.publish({"n": number} if queue.discipline == "streams" else str(number))
            queue.ack(some(queue.claim()))

    contenders = [
        *loops.contenders(),
        *batches.contenders(),
        Contender("claim + nack", nack, CALLS),
        Contender("claim + release", release, CALLS),
        *(Contender(f"{name}: publish + claim + ack", partial(work, queue), CALLS) for name, queue in others.items()),
        *awaited.contenders(),
    ]
    named = {each.name: each for each in contenders}
    print(json.dumps(list(named)), flush=True)
    for line in sys.stdin:
        print(json.dumps(_run(named[line.strip()], clock)), flush=True)
    for queue in queues:
        queue.close()
    awaited.close()


class AsyncioRows:
    """Calls one after the other, and calls of many tasks at once."""

    def __init__(self, port: int, at: str) -> None:
        self._runner, self._client = asyncio.Runner(), Redis(port=port)
        self._queue = AsyncLeasedQueue(self._client, f"against-asyncio-{at}")

    def contenders(self) -> list[Contender]:
        return [
            Contender("asyncio: publish + claim + ack", partial(self._run, self._alone), CALLS),
            Contender(f"asyncio: {TASKS} tasks at once", partial(self._run, self._at_once), CALLS),
        ]

    def close(self) -> None:
        self._run(self._queue.close)
        self._run(self._client.aclose)
        self._runner.close()

    def _run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._runner.run(main())

    async def _alone(self) -> None:
        for number in range(CALLS):
            await self._queue.publish(str(number))
            await self._queue.ack(some(await self._queue.claim()))

    async def _at_once(self) -> None:
        for _ in range(CALLS // TASKS):
            await asyncio.gather(*(self._queue.publish(str(number)) for number in range(TASKS)))
            await asyncio.gather(*(self._work() for _ in range(TASKS)))

    async def _work(self) -> None:
        await self._queue.ack(some(await self._queue.claim()))


def _run(each: Contender, clock: Clock) -> float:
    if each.before:
        each.before()
    gc.collect()  # otherwise some slices would also collect the garbage of their preparation
    began = clock.now()
    each.run()
    taken = clock.now().since(began)
    if each.after:
        each.after()
    return taken.client_s + taken.server_s


if __name__ == "__main__":
    main()
