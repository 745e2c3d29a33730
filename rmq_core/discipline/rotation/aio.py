"""`AsyncRotationQueue`: ids that rotate in a list, run by the asyncio driver."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from rmq_core.discipline.rotation.config import CAPABILITIES, DISCIPLINE, RotationConfig
from rmq_core.discipline.rotation.engine import RotationEngine
from rmq_core.discipline.rotation.keys import RotationKeys
from rmq_core.discipline.rotation.operations import inspecting, popping, pushing, settling
from rmq_core.envelope.codec import Message
from rmq_core.messages import Lease
from rmq_core.protocol import lacking
from rmq_core.queue.aio import AsyncFacade, method
from rmq_core.queue.settle import open_places


class AsyncRotationQueue(AsyncFacade[RotationEngine]):
    """A queue of ids in one list: what is popped goes round in it, stamped, until it is marked as done.

    `redis` is a redis.asyncio client, a RedisSettings or a URL; the queue closes only a client it made itself. The
    asyncio twin of RotationQueue.
    """

    discipline = DISCIPLINE
    capabilities = CAPABILITIES

    def __init__(self, redis: Any, name: str, config: RotationConfig | None = None) -> None:
        self.config = config or RotationConfig()
        super().__init__(redis, RotationEngine(RotationKeys(name), self.config))

    push = method(pushing.push)
    safe_pop = method(popping.safe_pop)
    mark_done = method(settling.mark_done)
    publish = method(pushing.publish)
    publish_many = method(pushing.publish_many)
    claim = method(popping.claim)
    extend = method(settling.extend)
    ack = method(settling.ack)
    nack = method(settling.nack)
    release = method(settling.release)
    backlog = method(inspecting.backlog)
    stats = method(inspecting.stats)
    peek = method(inspecting.peek)
    dead_letters = method(inspecting.dead_letters)
    redrive = method(inspecting.redrive)
    purge = method(inspecting.purge)

    def hold(
        self, lease: Lease, by: timedelta | float | None = None, on_lost: Callable[[Lease], object] | None = None
    ) -> AbstractAsyncContextManager[Lease]:
        """Raises Unsupported: a stamp is not moved while somebody works."""
        del lease, by, on_lost
        raise lacking(DISCIPLINE, "extend", "heartbeats")

    async def messages(self, lease: Lease) -> AsyncIterator[Message]:
        """The ids of a lease that are not settled yet, as messages, in order."""
        found = lease.messages
        for place in open_places(lease):
            yield found[place]
