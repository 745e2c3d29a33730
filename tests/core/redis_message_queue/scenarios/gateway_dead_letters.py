"""Dead letters of a queue with a gateway of its own are configured on the gateway."""

from __future__ import annotations

import time
from contextlib import suppress

from redis import Redis

from rmq_core import RedisMessageQueue
from rmq_core.redis_message_queue import RedisGateway

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
gateway = RedisGateway(
    redis_client=client,
    message_visibility_timeout_seconds=1,
    message_wait_interval_seconds=0,
    max_delivery_count=2,
    dead_letter_queue="scans::dead_letter",
)
scans = RedisMessageQueue("scans", gateway=gateway)
scans.publish("page 7")
for _ in range(2):
    with suppress(KeyboardInterrupt), scans.process_message() as page:
        assert page == "page 7"
        raise KeyboardInterrupt
    time.sleep(1.1)
with scans.process_message() as page:
    assert page is None
assert gateway.dead_letter_queue == "scans::dead_letter"
client.close()
