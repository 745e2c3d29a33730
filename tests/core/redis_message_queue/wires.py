"""Queues whose connections go through a proxy that can cut them."""

from __future__ import annotations

from typing import Any

import redis
import redis.asyncio

from tests.core.redis_message_queue.worlds import World
from tests.faults.proxy import Proxy


def client_over(world: World, proxy: Proxy, **options: Any) -> Any:
    """A client whose commands go through the proxy and that does not retry by itself."""
    kind: Any = redis.Redis if world.flavour == "sync" else redis.asyncio.Redis
    made = world.call(lambda: kind.from_url(proxy.url, **{"decode_responses": True, "retry": None} | options))
    client = getattr(made, "inner", made)
    world._ends.callback(world.call, client.close if world.flavour == "sync" else client.aclose)
    return client


def over(world: World, proxy: Proxy, *, client: Any = None, queue: Any = None, **gateway: Any) -> Any:
    """A queue through the proxy, its connection already open."""
    options = {"retry_budget_seconds": 10, "message_wait_interval_seconds": 1} | gateway
    made = world.gateway(client=client or client_over(world, proxy), **options)
    warm = world.queue("warm", gateway=made, **(queue or {}))
    warm.publish("x")
    with warm.process_message():
        pass
    return world.queue(gateway=made, **(queue or {})), made
