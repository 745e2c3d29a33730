"""The blocking and the asyncio queue in one module, under different names."""

from __future__ import annotations

import asyncio

import redis
import redis.asyncio

from rmq_core import RedisMessageQueue as SyncRedisMessageQueue
from rmq_core.asyncio import RedisMessageQueue as AsyncRedisMessageQueue

URL = "redis://localhost:6379/0"


async def receive() -> str | bytes | None:
    client = redis.asyncio.Redis.from_url(URL)
    queue = AsyncRedisMessageQueue("parcels", client=client)
    async with queue.process_message() as parcel:
        received = parcel
    await client.aclose()
    return received


with redis.Redis.from_url(URL) as sender:
    assert SyncRedisMessageQueue("parcels", client=sender).publish("parcel 5")
assert asyncio.run(receive()) == b"parcel 5"
