"""The same for an async client."""

from __future__ import annotations

import asyncio

import redis.asyncio as redis

from rmq_core.asyncio import RedisMessageQueue


async def main() -> None:
    client = redis.Redis.from_url("redis://localhost:6379/0", retry=None)
    queue = RedisMessageQueue("jobs", client=client, deduplication=False)
    assert [await queue.publish("job"), await queue.publish("job")] == [True, True]
    for _ in range(2):
        async with queue.process_message() as job:
            assert job == b"job"
    await client.aclose()


asyncio.run(main())
