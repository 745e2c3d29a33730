"""A worker takes one message after the other until it is told that the day is over."""

from __future__ import annotations

from redis import Redis

from rmq_core import RedisMessageQueue

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
jobs = RedisMessageQueue("jobs", client=client)
for text in ("scan shelf 4", "scan shelf 9", "day over"):
    jobs.publish(text)

done: list[str | bytes] = []
while "day over" not in done:
    with jobs.process_message() as task:
        if task is not None:
            done.append(task)

assert done == ["scan shelf 4", "scan shelf 9", "day over"]
client.close()
