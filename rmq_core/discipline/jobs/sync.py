"""`JobQueue`: the operations of a job queue, run by the blocking driver."""

from __future__ import annotations

from collections.abc import Iterator

from rmq_core.discipline.jobs.admin import JobAdmin
from rmq_core.discipline.jobs.engine import JobsEngine
from rmq_core.discipline.jobs.methods import JobMethods
from rmq_core.discipline.jobs.operations.telling import JobEvent
from rmq_core.queue.base import Part
from rmq_core.queue.sync import LargeLeaseFacade


class JobQueue(JobMethods, LargeLeaseFacade[JobsEngine]):
    """A queue of named jobs in a stream. AsyncJobQueue is its asyncio version, which a Worker uses.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself.
    """

    admin = Part(JobAdmin)

    def events(self, position: str | None = None) -> Iterator[JobEvent]:
        """Yield job events without end: those after the event at `position`, or only new ones when it is None."""
        at = self.events_position() if position is None else position
        while True:
            for event in self.read_events(at):
                at = event.position
                yield event
