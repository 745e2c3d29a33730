from __future__ import annotations

from rmq_core.kernel.base import Method, Part
from rmq_core.reliable.aio import AsyncReliableQueue
from tests.core import toy
from tests.core.toy.touch import ToyAdmin


class AsyncToyQueue(AsyncReliableQueue):
    """A queue of the toy discipline."""

    discipline = toy.RECORD.name
    admin = Part(ToyAdmin)
    publish = Method(toy.publish)
    publish_many = Method(toy.publish_many)
