"""A file that kills every worker becomes a dead letter, which operators read."""

from __future__ import annotations

import time
from contextlib import suppress

from redis import Redis

from rmq_core import RedisMessageQueue

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
files = RedisMessageQueue("files", client=client, visibility_timeout_seconds=1, max_delivery_count=1)
files.publish("bomb.zip")
with suppress(KeyboardInterrupt), files.process_message() as name:
    assert name == "bomb.zip"
    raise KeyboardInterrupt  # the worker is gone

time.sleep(1.1)
files.publish("holiday.zip")
with files.process_message() as name:
    assert name == "holiday.zip"
client.close()
