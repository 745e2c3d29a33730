"""`RotationQueue`: ids that rotate in a list, run by the blocking driver."""

from __future__ import annotations

from rmq_core.discipline.rotation.admin import RotationAdmin
from rmq_core.discipline.rotation.engine import RotationEngine
from rmq_core.discipline.rotation.methods import RotationMethods
from rmq_core.queue.base import Part
from rmq_core.queue.sync import Facade


class RotationQueue(RotationMethods, Facade[RotationEngine]):
    """A queue of ids in one list: a popped id stays in the list with a time stamp until it is marked as done.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself. Threads may
    share the queue.
    """

    admin = Part(RotationAdmin)
