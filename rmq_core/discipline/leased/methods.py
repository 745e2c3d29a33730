"""The methods that the blocking and the asyncio class of a leased queue share."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.leased.config import CAPABILITIES, DISCIPLINE, LeasedConfig
from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations import (
    adopting,
    claiming,
    consumers,
    explaining,
    inspecting,
    managing,
    moving,
    publishing,
    repairing,
    selecting,
    settling,
    staging,
)
from rmq_core.events import OnEvent
from rmq_core.observe.around import begin_with
from rmq_core.observe.journal import journaled
from rmq_core.queue.base import Method, QueueBase
from rmq_core.queue.journal import read_journal
from rmq_core.queue.keys import LeasedKeys
from rmq_core.queue.moving import Importable
from rmq_core.queue.recording import Recorded
from rmq_core.queue.verbs import VERBS


class LeasedMethods(Recorded, QueueBase[LeasedEngine], Importable):
    """The methods of LeasedQueue and AsyncLeasedQueue."""

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
    verbs = VERBS
    _extend_all = staticmethod(settling.extend_all)
    _leave = staticmethod(managing.release_unanswered)

    def __init__(
        self, redis: Any, name: str, config: LeasedConfig | None = None, *, on_event: OnEvent | None = None
    ) -> None:
        self.config = config or LeasedConfig()
        super().__init__(redis, LeasedEngine(LeasedKeys(name), self.config, on_event))
        if self._engine.journal is not None:
            begin_with(self, journaled)

    publish = Method(publishing.publish)
    publish_many = Method(publishing.publish_many)
    stage = Method(staging.stage)
    publish_staged = Method(staging.publish_staged)
    drop_staged = Method(staging.drop_staged)
    claim = Method(claiming.claim)
    claim_next = Method(claiming.claim_next)
    adopt = Method(adopting.adopt)
    join = Method(adopting.join)
    extend = Method(settling.extend)
    ack = Method(settling.ack)
    nack = Method(settling.nack)
    release = Method(settling.release)
    release_lease = Method(managing.release_lease)
    register_consumer = Method(consumers.register_consumer)
    renew_consumer = Method(consumers.renew_consumer)
    read = Method(inspecting.read)
    read_columns = Method(inspecting.read_columns)
    backlog = Method(inspecting.backlog)
    stats = Method(inspecting.stats)
    leases = Method(inspecting.leases)
    lease_info = Method(inspecting.lease_info)
    server_time = Method(inspecting.server_time)
    settled = Method(inspecting.settled)
    peek = Method(inspecting.peek)
    dead_letters = Method(inspecting.dead_letters)
    browse = Method(inspecting.browse)
    browse_lease = Method(inspecting.browse_lease)
    redrive = Method(managing.redrive)
    redrive_some = Method(managing.redrive_some)
    redrive_edited = Method(repairing.redrive_edited)
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
    read_journal = Method(read_journal)
    export_page = Method(moving.export_page)
    stored_states = moving.STATES
    _import_entry = staticmethod(moving.import_entry)
    import_chunk = Method(moving.import_chunk)
