"""What operators do with a LeasedQueue: `queue.admin`."""

from __future__ import annotations

from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations import explaining, inspecting, managing, repairing, selecting
from rmq_core.queue.base import Awaited, Blocking, Method
from rmq_core.queue.journal import read_journal
from rmq_core.queue.recording import Recorded
from rmq_core.queue.verbs import Admin


class LeasedAdminMethods(Recorded, Admin[LeasedEngine]):
    """The methods of LeasedAdmin and AsyncLeasedAdmin."""

    release_lease = Method(managing.release_lease)
    leases = Method(inspecting.leases)
    peek = Method(inspecting.peek)
    dead_letters = Method(inspecting.dead_letters)
    browse = Method(inspecting.browse)
    browse_lease = Method(inspecting.browse_lease)
    redrive = Method(managing.redrive)
    redrive_some = Method(managing.redrive_some)
    edit = Method(repairing.edit)
    discard = Method(selecting.discard)
    dead_reasons = Method(selecting.dead_reasons)
    search = Method(selecting.search)
    purge = Method(managing.purge)
    run_now = Method(repairing.run_now)
    expire_lease = Method(repairing.expire_lease)
    pause = Method(managing.pause)
    resume = Method(managing.resume)
    cancel = Method(managing.cancel)
    forget = Method(managing.forget)
    remembered = Method(managing.remembered)
    unregister = Method(managing.unregister)
    why = Method(explaining.why)
    journal = Method(read_journal)
    server_time = Method(inspecting.server_time)


class LeasedAdmin(LeasedAdminMethods, Blocking):
    """What operators do with a LeasedQueue: `queue.admin`."""


class AsyncLeasedAdmin(LeasedAdminMethods, Awaited):
    """What operators do with an asyncio LeasedQueue: `queue.admin`."""
