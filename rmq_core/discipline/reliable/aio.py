"""`AsyncReliableQueue` and its `AsyncReaper`, run by the asyncio driver."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import timedelta

from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.methods import ReliableMethods
from rmq_core.discipline.reliable.operations.reaping import Reaped
from rmq_core.discipline.reliable.pace import pause_between
from rmq_core.errors import QueueFull, QueueUnavailable
from rmq_core.queue.aio import AsyncFacade

_log = logging.getLogger("rmq")


class AsyncReliableQueue(ReliableMethods, AsyncFacade[ReliableEngine]):
    """A queue whose messages stay in a list of their worker until they are acked; ReliableQueue for asyncio.

    `redis` is a redis.asyncio client, a RedisSettings or a URL; the queue closes only a client it made itself. Messages
    of workers that died are requeued only while a reaper runs in some process.
    """


class AsyncReaper:
    """Requeues the messages of workers that died; the asyncio version of Reaper.

    timeout: how long (seconds or timedelta) a message may be held. max_deliveries: after this many failed deliveries a
    message becomes a dead letter. None means the queue's own setting. interval: the pause between two rounds; None
    means a tenth of the timeout, at least 0.1 s and at most a minute.
    """

    def __init__(
        self,
        queue: AsyncReliableQueue,
        timeout: timedelta | float | None = None,
        max_deliveries: int | None = None,
        interval: timedelta | float | None = None,
    ) -> None:
        self.queue, self.timeout, self.max_deliveries = queue, timeout, max_deliveries
        self.interval_s = pause_between(interval, queue.config.timeout if timeout is None else timeout)

    async def run_once(self) -> Reaped:
        """Check the messages of every worker once."""
        return await self.queue.reap(self.timeout, self.max_deliveries)

    async def run(self, stop: asyncio.Event) -> None:
        """Repeat rounds until `stop` is set. If the server does not answer or is full, the next round tries again."""
        while not stop.is_set():
            try:
                await self.run_once()
            except (QueueUnavailable, QueueFull) as error:
                _log.warning("a round of the reaper of queue %r failed: %s", self.queue.name, error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self.interval_s)
