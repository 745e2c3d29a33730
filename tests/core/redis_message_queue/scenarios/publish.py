"""A web shop tells the warehouse about orders; a double click is no second order."""

from __future__ import annotations

from redis import Redis

from rmq_core import RedisMessageQueue

client = Redis.from_url("redis://localhost:6379/0", decode_responses=True)
orders = RedisMessageQueue("orders", client=client, deduplication=True)

assert orders.publish("pick:81") is True
assert orders.publish("pick:81") is False
assert orders.publish({"customer": "Zoë", "items": [3, 5]}) is True
client.close()
