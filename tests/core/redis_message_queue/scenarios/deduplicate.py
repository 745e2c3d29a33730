"""Three queues, three ideas of what the same message is."""

from __future__ import annotations

from redis import Redis

from rmq_core import RedisMessageQueue

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
reading, corrected = {"sensor": "s1", "celsius": 20}, {"sensor": "s1", "celsius": 21}

by_content = RedisMessageQueue("by content", client=client, deduplication=True)
assert [by_content.publish(each) for each in (reading, reading, corrected)] == [True, False, True]

by_sensor = RedisMessageQueue(
    "by sensor", client=client, deduplication=True, get_deduplication_key=lambda message: message["sensor"]
)
assert [by_sensor.publish(each) for each in (reading, reading, corrected)] == [True, False, False]

everything = RedisMessageQueue("everything", client=client, deduplication=False)
assert [everything.publish(each) for each in (reading, reading, corrected)] == [True, True, True]
client.close()
