"""The methods that the blocking and the asyncio class of a job queue share."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.jobs.config import CAPABILITIES, JobsConfig
from rmq_core.discipline.jobs.engine import JobsEngine
from rmq_core.discipline.jobs.keys import JobsKeys
from rmq_core.discipline.jobs.operations import (
    adding,
    cancelling,
    claiming,
    managing,
    moving,
    reading,
    repeating,
    settling,
    telling,
)
from rmq_core.queue.base import Method, Part, QueueBase, QueuePart
from rmq_core.queue.moving import Importable


class JobTools(QueuePart[JobsEngine], Importable):
    """What exports, imports and integrations call."""

    read_columns = Method(reading.read_columns)
    export_page = Method(moving.export_page)
    stored_states = moving.STATES
    _import_entry = staticmethod(moving.import_entry)
    import_chunk = Method(moving.import_chunk)


class JobMethods(QueueBase[JobsEngine]):
    """The methods of JobQueue and AsyncJobQueue."""

    discipline = "jobs"
    capabilities = CAPABILITIES
    _tools = Part(JobTools)
    _extend_all = staticmethod(settling.extend_all)

    def __init__(self, redis: Any, name: str, config: JobsConfig | None = None) -> None:
        self.config = config or JobsConfig()
        super().__init__(redis, JobsEngine(JobsKeys(name), self.config))

    add = Method(adding.add)
    add_unique = Method(adding.add_unique)
    add_bulk = Method(adding.add_bulk)
    publish = Method(adding.publish)
    publish_many = Method(adding.publish_many)
    cancel_delayed = Method(cancelling.cancel_delayed)
    claim = Method(claiming.claim)
    adopt = Method(claiming.adopt)
    extend = Method(settling.extend)
    ack = Method(settling.ack)
    nack = Method(settling.nack)
    release = Method(settling.release)
    read = Method(reading.read)
    backlog = Method(reading.backlog)
    stats = Method(reading.stats)
    lease_info = Method(reading.lease_info)
    settled = Method(reading.settled)
    peek_dlq = Method(reading.peek_dlq)
    replay_dlq = Method(managing.redrive)
    get_result = Method(managing.get_result)
    get_results = Method(managing.get_results)
    wait_for_result = Method(managing.wait_for_result)
    upsert_repeatable_job = Method(repeating.upsert_repeatable_job)
    get_repeatable_jobs = Method(repeating.get_repeatable_jobs)
    remove_repeatable = Method(repeating.remove_repeatable)
    promote = Method(repeating.promote)
    events_position = Method(telling.events_position)
    read_events = Method(telling.read_events)
