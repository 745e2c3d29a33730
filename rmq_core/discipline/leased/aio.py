"""`AsyncLeasedQueue`: the operations of a leased queue, run by the asyncio driver."""

from __future__ import annotations

from rmq_core.discipline.leased.admin import AsyncLeasedAdmin
from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.methods import LeasedMethods
from rmq_core.queue.aio import AsyncLargeLeaseFacade
from rmq_core.queue.base import Part


class AsyncLeasedQueue(LeasedMethods, AsyncLargeLeaseFacade[LeasedEngine]):
    """A queue whose messages are handed out under leases; the asyncio version of LeasedQueue.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself. `on_event`
    gets a QueueEvent after each step.
    """

    admin = Part(AsyncLeasedAdmin)
