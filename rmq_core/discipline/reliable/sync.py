"""`ReliableQueue`, run by the blocking driver."""

from __future__ import annotations

from rmq_core.discipline.reliable.admin import ReliableAdmin
from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.methods import ReliableMethods
from rmq_core.queue.base import Part
from rmq_core.queue.sync import Facade


class ReliableQueue(ReliableMethods, Facade[ReliableEngine]):
    """A queue whose messages stay in a list of their worker until they are acked. Threads may share it.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself. Messages of
    workers that died are requeued only while a Reaper runs in some process.
    """

    admin = Part(ReliableAdmin)
