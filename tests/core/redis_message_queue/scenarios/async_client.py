"""The program that makes an asyncio client closes it, and with it the queue."""

from __future__ import annotations

import asyncio

import redis.asyncio as redis

from rmq_core.asyncio import RedisMessageQueue


async def main() -> None:
    client = redis.Redis.from_url("redis://localhost:6379/0")
    queue = RedisMessageQueue("notes", client=client)
    assert await queue.publish("note")
    async with queue.process_message() as note:
        assert note == b"note"
    await client.aclose()


asyncio.run(main())
