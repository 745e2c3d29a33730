"""A slow render outlives its timeout because the heartbeat keeps its lease."""

from __future__ import annotations

import time

from redis import Redis

from rmq_core import RedisMessageQueue

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
renders = RedisMessageQueue("renders", client=client, visibility_timeout_seconds=3, heartbeat_interval_seconds=1)
renders.publish("scene 12")
with renders.process_message() as scene:
    assert scene == "scene 12"
    time.sleep(3.5)
client.close()
