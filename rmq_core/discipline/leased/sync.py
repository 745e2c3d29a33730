"""`LeasedQueue`: the operations of a leased queue, run by the blocking driver."""

from __future__ import annotations

from rmq_core.discipline.leased.admin import LeasedAdmin
from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.methods import LeasedMethods
from rmq_core.queue.base import Part
from rmq_core.queue.sync import LargeLeaseFacade


class LeasedQueue(LeasedMethods, LargeLeaseFacade[LeasedEngine]):
    """A queue whose messages are handed out under leases. Threads may share it; it survives a fork.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself. `on_event`
    gets a QueueEvent after each step.
    """

    admin = Part(LeasedAdmin)
