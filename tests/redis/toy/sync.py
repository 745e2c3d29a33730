from __future__ import annotations

from rmq_core.discipline.reliable.sync import ReliableQueue
from rmq_core.queue.sync import method
from tests.redis import toy


class ToyQueue(ReliableQueue):
    """A queue of the toy discipline."""

    discipline = toy.RECORD.name
    publish = method(toy.publish)
    publish_many = method(toy.publish_many)
