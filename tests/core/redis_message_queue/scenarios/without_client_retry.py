"""A client that does not retry by itself, for messages that must not be doubled."""

from __future__ import annotations

import redis

from rmq_core import RedisMessageQueue

client = redis.Redis.from_url("redis://localhost:6379/0", retry=None)
queue = RedisMessageQueue("jobs", client=client, deduplication=False)
assert [queue.publish("job"), queue.publish("job")] == [True, True]
for _ in range(2):
    with queue.process_message() as job:
        assert job == b"job"
client.close()
