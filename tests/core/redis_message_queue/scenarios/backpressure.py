"""A producer that outruns its consumers is stopped instead of filling the server."""

from __future__ import annotations

from redis import Redis

from rmq_core import RedisMessageQueue
from rmq_core.errors import QueueBackpressureError
from rmq_core.redis_message_queue import RedisGateway

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
frames = RedisMessageQueue("frames", client=client, max_pending_length=3, pending_overload_policy="raise")
refused = 0
for number in range(5):
    try:
        frames.publish(f"frame {number}")
    except QueueBackpressureError:
        refused += 1
assert refused == 2

gateway = RedisGateway(redis_client=client, max_pending_length=1, message_visibility_timeout_seconds=60)
stills = RedisMessageQueue("stills", gateway=gateway)
assert stills.publish("still 1")
try:
    stills.publish("still 2")
except QueueBackpressureError:
    refused += 1
assert refused == 3
client.close()
