"""A link over satellite: more patience, a longer memory for duplicates, a longer poll."""

from __future__ import annotations

from redis import Redis

from rmq_core import RedisMessageQueue
from rmq_core.redis_message_queue import RedisGateway

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
gateway = RedisGateway(
    redis_client=client,
    retry_budget_seconds=240,
    retry_max_delay_seconds=8.0,
    retry_initial_delay_seconds=0.05,
    message_deduplication_log_ttl_seconds=86_400,
    message_wait_interval_seconds=2,
    message_visibility_timeout_seconds=600,
)
soundings = RedisMessageQueue("soundings", gateway=gateway)
assert [soundings.publish("depth 4810"), soundings.publish("depth 4810")] == [True, False]
with soundings.process_message() as sounding:
    assert sounding == "depth 4810"
client.close()
