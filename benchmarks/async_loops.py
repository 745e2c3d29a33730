"""Compare one message at a time on asyncio with a bare loop of `redis.asyncio`."""

from __future__ import annotations

import asyncio

import redis.asyncio

from benchmarks.figures import Findings
from benchmarks.loops import CALLS, NAMES, found, some
from benchmarks.payloads import payloads
from benchmarks.rounds import Contender, race_async
from rmq_core import LeasedConfig
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue


def measure(port: int, rounds: int) -> Findings:
    return asyncio.run(_measure(port, rounds))


async def _measure(port: int, rounds: int) -> Findings:
    async with redis.asyncio.Redis(port=port) as client:
        sha = await client.script_load("return 1")
        loops = AsyncLoops(client, sha)
        try:
            return found(await race_async(loops.bare(), loops.contenders(), rounds), "async")
        finally:
            await loops.close()


class AsyncLoops:
    """The asyncio versions of `loops.Loops`."""

    def __init__(self, client: redis.asyncio.Redis, sha: str) -> None:
        self.client, self.sha = client, sha
        self.queue = AsyncLeasedQueue(client, "async-loops")
        self.unique = AsyncLeasedQueue(client, "async-loops-unique", LeasedConfig(dedup=True))
        self.fresh = payloads(CALLS)

    def bare(self) -> Contender:
        return Contender("bare", self._bare, CALLS)

    def contenders(self) -> list[Contender]:
        steps = (self._publish, self._publish_unique, self._claim_and_ack, self._claim_next)
        prepare = (self._refresh, self._refresh, self._fill, self._fill)
        return [
            Contender(name, run, CALLS, before, self._empty)
            for name, run, before in zip(NAMES, steps, prepare, strict=True)
        ]

    async def close(self) -> None:
        await self.queue.close()
        await self.unique.close()

    async def _bare(self) -> None:
        for _ in range(CALLS):
            await self.client.evalsha(self.sha, 0)

    async def _publish(self) -> None:
        for payload in self.fresh:
            await self.queue.publish(payload)

    async def _publish_unique(self) -> None:
        for payload in self.fresh:
            await self.unique.publish(payload)

    async def _claim_and_ack(self) -> None:
        for _ in range(CALLS):
            await self.queue.ack(some(await self.queue.claim()))

    async def _claim_next(self) -> None:
        lease = some(await self.queue.claim())
        for _ in range(CALLS - 1):
            lease = some(await self.queue.claim_next(ack=lease))
        await self.queue.ack(lease)

    async def _refresh(self) -> None:
        self.fresh = payloads(CALLS)

    async def _fill(self) -> None:
        await self.queue.publish_many(self.fresh)

    async def _empty(self) -> None:
        await self.queue.admin.purge("ready")
        await self.unique.admin.purge("ready")
