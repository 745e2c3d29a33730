"""`AsyncJobQueue`: the operations of a job queue, run by the asyncio driver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from rmq_core.admin.history import flush, one_attempt
from rmq_core.aio import AsyncLargeLeaseFacade
from rmq_core.exchange import Exchange
from rmq_core.jobs.queue import JobAdmin, JobMethods
from rmq_core.jobs.results import JobEvent
from rmq_core.jobs.state import JobsEngine
from rmq_core.kernel.base import Part
from rmq_core.kernel.settings import followed
from rmq_core.twin import Awaited

R = TypeVar("R")


class AsyncJobQueue(JobMethods, AsyncLargeLeaseFacade[JobsEngine, Any]):
    """A JobQueue for asyncio, which a Worker uses: `redis` is a redis.asyncio client, a RedisSettings or a URL."""

    admin = Part(JobAdmin[Awaited])

    async def events(self, position: str | None = None) -> AsyncIterator[JobEvent]:
        """Yield job events without end: those after the event at `position`, or only new ones when it is None."""
        at = await self.events_position() if position is None else position
        while True:
            for event in await self.read_events(at):
                at = event.position
                yield event

    @property
    def engine(self) -> JobsEngine:
        """The engine that the queue passes to its operations. A Worker uses it."""
        return self._engine

    async def run_exchange(self, exchange: Exchange[R]) -> R:
        """Run an exchange that is not one of the queue's methods. A Worker runs its operations this way."""
        engine = self._engine
        result: R = await self._driver.run(exchange if engine.simple else followed(engine, exchange))
        return result

    async def flush_history(self) -> None:
        """Send the counts since the last flush to the history. A Worker calls this; a Redis error is ignored."""
        if self._tally is not None and self._tally.noted:
            await self._driver.run(flush(self._recorder), one_attempt())
