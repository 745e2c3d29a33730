"""`JobQueue`, its list of operations, and its `admin`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rmq_core.admin.configuring import Configured
from rmq_core.admin.history import Recorded
from rmq_core.admin.verbs import Admin
from rmq_core.jobs import claiming, inspecting, managing, publishing, reclaiming, repeating, results, settling, transfer
from rmq_core.jobs.config import CAPABILITIES, JobsConfig
from rmq_core.jobs.results import JobEvent
from rmq_core.jobs.state import JobsEngine, JobsKeys
from rmq_core.kernel.base import Method, Part, QueueBase, QueuePart, W
from rmq_core.kernel.transfer import Importable
from rmq_core.queue import LargeLeaseFacade
from rmq_core.twin import Blocking


class JobTools(QueuePart[JobsEngine, Any], Importable):
    """What exports, imports and integrations call."""

    export_page = Method(transfer.export_page)
    stored_states = transfer.STATES
    _import_entry = staticmethod(transfer.import_entry)
    import_chunk = Method(transfer.import_chunk)


class JobMethods(QueueBase[JobsEngine]):
    """The methods of JobQueue and AsyncJobQueue."""

    discipline = "jobs"
    capabilities = CAPABILITIES
    _tools = Part(JobTools)
    _extend_all = staticmethod(settling.extend_all)

    def __init__(self, redis: Any, name: str, config: JobsConfig | None = None) -> None:
        super().__init__(redis, JobsEngine(JobsKeys(name), config or JobsConfig()))

    @property
    def config(self) -> JobsConfig:
        """The settings in force: after the first call, those stored with the queue in place of the program's own."""
        return self._engine.config

    add = Method(publishing.add)
    add_unique = Method(publishing.add_unique)
    add_bulk = Method(publishing.add_bulk)
    publish = Method(publishing.publish)
    publish_many = Method(publishing.publish_many)
    cancel_delayed = Method(managing.cancel_delayed)
    claim = Method(claiming.claim)
    adopt = Method(claiming.adopt)
    extend = Method(settling.extend)
    ack = Method(settling.ack)
    nack = Method(settling.nack)
    release = Method(settling.release)
    read = Method(inspecting.read)
    read_arrow = Method(inspecting.read_arrow)
    backlog = Method(inspecting.backlog)
    stats = Method(inspecting.stats)
    lease_info = Method(inspecting.lease_info)
    settled = Method(inspecting.settled)
    peek_dlq = Method(inspecting.peek_dlq)
    replay_dlq = Method(managing.redrive)
    get_result = Method(results.get_result)
    get_results = Method(results.get_results)
    wait_for_result = Method(results.wait_for_result)
    upsert_repeatable_job = Method(repeating.upsert_repeatable_job)
    get_repeatable_jobs = Method(repeating.get_repeatable_jobs)
    remove_repeatable = Method(repeating.remove_repeatable)
    promote = Method(repeating.promote)
    events_position = Method(results.events_position)
    read_events = Method(results.read_events)


class JobAdmin(Recorded, Configured, Admin[JobsEngine, W]):
    """What operators do with a JobQueue: `queue.admin`."""

    cancel = Method(managing.cancel)
    forget = Method(publishing.forget)
    peek = Method(inspecting.peek)
    leases = Method(inspecting.leases)
    dead_letters = Method(inspecting.dead_letters)
    redrive = Method(managing.redrive)
    purge = Method(managing.purge)
    pause = Method(managing.pause)
    resume = Method(managing.resume)
    run_now = Method(managing.run_now)
    expire_lease = Method(reclaiming.expire_lease)
    expire_leases = Method(managing.expire_leases)
    search = Method(managing.search)
    dead_reasons = Method(managing.dead_reasons)
    discard = Method(managing.discard)


class JobQueue(JobMethods, LargeLeaseFacade[JobsEngine, Any]):
    """A queue of named jobs in a stream. AsyncJobQueue is its asyncio version, which a Worker uses.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself.
    """

    admin = Part(JobAdmin[Blocking])

    def events(self, position: str | None = None) -> Iterator[JobEvent]:
        """Yield job events without end: those after the event at `position`, or only new ones when it is None."""
        at = self.events_position() if position is None else position
        while True:
            for event in self.read_events(at):
                at = event.position
                yield event
