"""The same for a worker that is a task."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis

from rmq_core.asyncio import RedisMessageQueue
from rmq_core.errors import QueueDrainedError


async def main() -> None:
    client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
    tickets = RedisMessageQueue("tickets", client=client)
    await tickets.publish("ticket 1")
    begun = asyncio.Event()
    finished: list[str | bytes | None] = []

    async def work() -> None:
        async with tickets.process_message() as ticket:
            begun.set()
            await asyncio.sleep(0.05)
            finished.append(ticket)

    worker = asyncio.create_task(work())
    await begun.wait()
    assert await tickets.aclose(timeout=25) is True
    await worker
    assert finished == ["ticket 1"]
    try:
        await tickets.publish("ticket 2")
    except QueueDrainedError:
        pass
    else:
        raise SystemExit("a drained queue took a message")
    await client.aclose()


asyncio.run(main())
