"""A gateway that stops renewing as soon as its queue shuts down."""

from __future__ import annotations

import threading
from typing import Any

from redis import Redis

from rmq_core import RedisMessageQueue
from rmq_core.redis_message_queue import RedisGateway

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
renewed = threading.Event()


class Observed(RedisGateway):
    def renew_message_lease(
        self, queue: str, message: str | bytes, lease_token: str, *, is_interrupted: Any = None
    ) -> bool:
        if is_interrupted is not None and is_interrupted.is_interrupted():
            return False
        renewed.set()
        return super().renew_message_lease(queue, message, lease_token, is_interrupted=is_interrupted)


gateway = Observed(redis_client=client, message_visibility_timeout_seconds=60)
queue = RedisMessageQueue("jobs", gateway=gateway, heartbeat_interval_seconds=1)
queue.publish("job")
with queue.process_message() as job:
    assert job == "job"
    assert renewed.wait(60)
client.close()
