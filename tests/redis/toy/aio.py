from __future__ import annotations

from rmq_core.discipline.reliable.aio import AsyncReliableQueue
from rmq_core.queue.base import Method
from tests.redis import toy


class AsyncToyQueue(AsyncReliableQueue):
    """A queue of the toy discipline."""

    discipline = toy.RECORD.name
    publish = Method(toy.publish)
    publish_many = Method(toy.publish_many)
