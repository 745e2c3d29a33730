from __future__ import annotations

from rmq_core.kernel.base import Method, Part
from rmq_core.reliable.queue import ReliableQueue
from tests.core import toy
from tests.core.toy.touch import ToyAdmin


class ToyQueue(ReliableQueue):
    """A queue of the toy discipline."""

    discipline = toy.RECORD.name
    admin = Part(ToyAdmin)
    publish = Method(toy.publish)
    publish_many = Method(toy.publish_many)
