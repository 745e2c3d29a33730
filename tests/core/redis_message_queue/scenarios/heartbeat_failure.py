"""The operator hears of heartbeats that stopped."""

from __future__ import annotations

from redis import Redis

from rmq_core import RedisMessageQueue

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
alarms: list[str] = []
renders = RedisMessageQueue(
    "renders",
    client=client,
    visibility_timeout_seconds=120,
    heartbeat_interval_seconds=30,
    on_heartbeat_failure=lambda: alarms.append("a lease may be stale"),
)
renders.publish("scene 13")
with renders.process_message() as scene:
    assert scene == "scene 13"
assert alarms == []
client.close()
