"""The logs keep what an audit asks for: many successes, few failures."""

from __future__ import annotations

from redis import Redis

from rmq_core import RedisMessageQueue

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
audited = RedisMessageQueue(
    "audited",
    client=client,
    enable_completed_queue=True,
    enable_failed_queue=True,
    max_completed_length=20_000,
    max_failed_length=50,
)
unbounded = RedisMessageQueue("kept", client=client, enable_completed_queue=True, max_completed_length=None)
for queue in (audited, unbounded):
    queue.publish("entry")
    with queue.process_message() as entry:
        assert entry == "entry"
client.close()
