"""Compare a thousand messages at a time on asyncio with a pipeline of `redis.asyncio`."""

from __future__ import annotations

import asyncio

import redis.asyncio

from benchmarks.batches import BATCH, BATCHES, MESSAGES, NAMES, found, handle, slices
from benchmarks.figures import Findings
from benchmarks.loops import some
from benchmarks.payloads import payloads
from benchmarks.rounds import Contender, race_async
from rmq_core import LeasedConfig
from rmq_core.asyncio import LeasedQueue as AsyncLeasedQueue


def measure(port: int, rounds: int) -> Findings:
    return asyncio.run(_measure(port, rounds))


async def _measure(port: int, rounds: int) -> Findings:
    async with redis.asyncio.Redis(port=port) as client:
        batches = AsyncBatches(client)
        try:
            return found(await race_async(batches.bare(), batches.contenders(), rounds), "async")
        finally:
            await batches.close()


class AsyncBatches:
    """The asyncio versions of `batches.Batches`."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self.client = client
        self.queue = AsyncLeasedQueue(client, "async-batches")
        self.unique = AsyncLeasedQueue(client, "async-batches-unique", LeasedConfig(dedup=True))
        self.fresh = slices(payloads(MESSAGES))

    def bare(self) -> Contender:
        return Contender("bare", self._bare, MESSAGES, after=self._empty)

    def contenders(self) -> list[Contender]:
        steps = (self._publish, self._publish_unique, self._claim_and_ack, self._process)
        prepare = (self._refresh, self._refresh, self._publish, self._publish)
        return [
            Contender(name, run, MESSAGES, before, self._empty)
            for name, run, before in zip(NAMES, steps, prepare, strict=True)
        ]

    async def close(self) -> None:
        await self.queue.close()
        await self.unique.close()

    async def _bare(self) -> None:
        for batch in self.fresh:
            pipeline = self.client.pipeline(transaction=False)
            for payload in batch:
                pipeline.lpush("async-batches-bare", payload)
            await pipeline.execute()

    async def _publish(self) -> None:
        for batch in self.fresh:
            await self.queue.publish_many(batch)

    async def _publish_unique(self) -> None:
        for batch in self.fresh:
            await self.unique.publish_many(batch)

    async def _claim_and_ack(self) -> None:
        for _ in range(BATCHES):
            await self.queue.ack(some(await self.queue.claim(max_messages=BATCH)))

    async def _process(self) -> None:
        for _ in range(BATCHES):
            async with self.queue.process(max_messages=BATCH) as batch:
                async for message in batch:
                    handle(message)

    async def _refresh(self) -> None:
        self.fresh = slices(payloads(MESSAGES))

    async def _empty(self) -> None:
        await self.queue.admin.purge("ready")
        await self.unique.admin.purge("ready")
        await self.client.delete("async-batches-bare")
