"""`JobQueue`: the operations of a job queue, run by the blocking driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmq_core.discipline.jobs.config import CAPABILITIES, JobsConfig
from rmq_core.discipline.jobs.engine import JobsEngine
from rmq_core.discipline.jobs.keys import JobsKeys
from rmq_core.discipline.jobs.operations import adding, claiming, managing, reading, repeating, settling, telling
from rmq_core.discipline.jobs.operations.telling import JobEvent
from rmq_core.queue.sync import Slicing, method


class JobQueue(Slicing[JobsEngine]):
    """A queue of named jobs in a stream; AsyncJobQueue is its twin, which workers run on.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself.
    """

    discipline = "jobs"
    capabilities = CAPABILITIES
    _extend_all = staticmethod(settling.extend_all)

    def __init__(self, redis: Any, name: str, config: JobsConfig | None = None) -> None:
        self.config = config or JobsConfig()
        super().__init__(redis, JobsEngine(JobsKeys(name), self.config))

    add = method(adding.add)
    add_unique = method(adding.add_unique)
    add_bulk = method(adding.add_bulk)
    publish = method(adding.publish)
    publish_many = method(adding.publish_many)
    cancel_delayed = method(adding.cancel_delayed)
    forget = method(adding.forget)
    claim = method(claiming.claim)
    adopt = method(claiming.adopt)
    extend = method(settling.extend)
    ack = method(settling.ack)
    nack = method(settling.nack)
    release = method(settling.release)
    read = method(reading.read)
    read_columns = method(reading.read_columns)
    backlog = method(reading.backlog)
    stats = method(reading.stats)
    peek = method(reading.peek)
    leases = method(reading.leases)
    lease_info = method(reading.lease_info)
    settled = method(reading.settled)
    dead_letters = method(reading.dead_letters)
    peek_dlq = method(reading.peek_dlq)
    redrive = method(managing.redrive)
    replay_dlq = method(managing.redrive)
    purge = method(managing.purge)
    get_result = method(managing.get_result)
    get_results = method(managing.get_results)
    wait_for_result = method(managing.wait_for_result)
    upsert_repeatable_job = method(repeating.upsert_repeatable_job)
    get_repeatable_jobs = method(repeating.get_repeatable_jobs)
    remove_repeatable = method(repeating.remove_repeatable)
    promote = method(repeating.promote)
    events_position = method(telling.events_position)
    read_events = method(telling.read_events)

    def events(self, position: str | None = None) -> Iterator[JobEvent]:
        """What happens to jobs, for ever, from now on or from the `position` of an event."""
        at = self.events_position() if position is None else position
        while True:
            for event in self.read_events(at):
                at = event.position
                yield event
