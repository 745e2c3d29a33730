from __future__ import annotations

from rmq_core.discipline.reliable.aio import AsyncReliableQueue
from rmq_core.queue.aio import method
from tests.redis import toy


class AsyncToyQueue(AsyncReliableQueue):
    """A queue of the toy discipline."""

    discipline = toy.RECORD.name
    publish = method(toy.publish)
    publish_many = method(toy.publish_many)
