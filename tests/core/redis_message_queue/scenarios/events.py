"""A callback hears of every step."""

from __future__ import annotations

from redis import Redis

from rmq_core import RedisMessageQueue
from rmq_core.events import QueueEvent

client = Redis.from_url("redis://localhost:6379/0")
diary: list[str] = []


def on_event(event: QueueEvent) -> None:
    diary.append(f"{event.queue} {event.operation} {event.outcome}")


queue = RedisMessageQueue("jobs", client=client, on_event=on_event)
queue.publish("x")
with queue.process_message():
    pass
assert diary == ["jobs publish success", "jobs claim success", "jobs ack success"]
client.close()
