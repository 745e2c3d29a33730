"""What operators do with a JobQueue: `queue.admin`."""

from __future__ import annotations

from rmq_core.discipline.jobs.engine import JobsEngine
from rmq_core.discipline.jobs.operations import adding, cancelling, managing, reading, reclaiming, selecting
from rmq_core.queue.base import Awaited, Blocking, Method
from rmq_core.queue.recording import Recorded
from rmq_core.queue.verbs import Admin


class JobAdminMethods(Recorded, Admin[JobsEngine]):
    """The methods of JobAdmin and AsyncJobAdmin."""

    cancel = Method(cancelling.cancel)
    forget = Method(adding.forget)
    peek = Method(reading.peek)
    leases = Method(reading.leases)
    dead_letters = Method(reading.dead_letters)
    redrive = Method(managing.redrive)
    purge = Method(managing.purge)
    pause = Method(managing.pause)
    resume = Method(managing.resume)
    run_now = Method(managing.run_now)
    expire_lease = Method(reclaiming.expire_lease)
    search = Method(selecting.search)
    dead_reasons = Method(selecting.dead_reasons)
    discard = Method(selecting.discard)


class JobAdmin(JobAdminMethods, Blocking):
    """What operators do with a JobQueue: `queue.admin`."""


class AsyncJobAdmin(JobAdminMethods, Awaited):
    """What operators do with an asyncio JobQueue: `queue.admin`."""
