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
    reclaiming,
    repeating,
    selecting,
    settling,
    telling,
)
from rmq_core.queue.base import Method, QueueBase
from rmq_core.queue.moving import Importable
from rmq_core.queue.recording import Recorded
from rmq_core.queue.verbs import VERBS


class JobMethods(Recorded, QueueBase[JobsEngine], Importable):
    """The methods of JobQueue and AsyncJobQueue."""

    discipline = "jobs"
    capabilities = CAPABILITIES
    verbs = VERBS - {"release_lease", "redrive_some", "redrive_edited"}
    _extend_all = staticmethod(settling.extend_all)

    def __init__(self, redis: Any, name: str, config: JobsConfig | None = None) -> None:
        self.config = config or JobsConfig()
        super().__init__(redis, JobsEngine(JobsKeys(name), self.config))

    add = Method(adding.add)
    add_unique = Method(adding.add_unique)
    add_bulk = Method(adding.add_bulk)
    publish = Method(adding.publish)
    publish_many = Method(adding.publish_many)
    cancel = Method(cancelling.cancel)
    cancel_delayed = Method(cancelling.cancel_delayed)
    forget = Method(adding.forget)
    claim = Method(claiming.claim)
    adopt = Method(claiming.adopt)
    extend = Method(settling.extend)
    ack = Method(settling.ack)
    nack = Method(settling.nack)
    release = Method(settling.release)
    read = Method(reading.read)
    read_columns = Method(reading.read_columns)
    backlog = Method(reading.backlog)
    stats = Method(reading.stats)
    peek = Method(reading.peek)
    leases = Method(reading.leases)
    lease_info = Method(reading.lease_info)
    settled = Method(reading.settled)
    dead_letters = Method(reading.dead_letters)
    peek_dlq = Method(reading.peek_dlq)
    redrive = Method(managing.redrive)
    replay_dlq = Method(managing.redrive)
    purge = Method(managing.purge)
    pause = Method(managing.pause)
    resume = Method(managing.resume)
    run_now = Method(managing.run_now)
    expire_lease = Method(reclaiming.expire_lease)
    search = Method(selecting.search)
    dead_reasons = Method(selecting.dead_reasons)
    discard = Method(selecting.discard)
    get_result = Method(managing.get_result)
    get_results = Method(managing.get_results)
    wait_for_result = Method(managing.wait_for_result)
    upsert_repeatable_job = Method(repeating.upsert_repeatable_job)
    get_repeatable_jobs = Method(repeating.get_repeatable_jobs)
    remove_repeatable = Method(repeating.remove_repeatable)
    promote = Method(repeating.promote)
    events_position = Method(telling.events_position)
    read_events = Method(telling.read_events)
    export_page = Method(moving.export_page)
    stored_states = moving.STATES
    _import_entry = staticmethod(moving.import_entry)
    import_chunk = Method(moving.import_chunk)
