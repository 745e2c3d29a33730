"""The methods that the blocking and the asyncio class of a leased queue share."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.leased.config import CAPABILITIES, DISCIPLINE, LeasedConfig
from rmq_core.discipline.leased.engine import LeasedEngine
from rmq_core.discipline.leased.operations import (
    adopting,
    claiming,
    consumers,
    inspecting,
    managing,
    moving,
    publishing,
    settling,
    staging,
)
from rmq_core.events import OnEvent
from rmq_core.observe.journal import journaled
from rmq_core.observe.middleware import begin_with
from rmq_core.queue.base import Method, Part, QueueBase, QueuePart
from rmq_core.queue.keys import LeasedKeys
from rmq_core.queue.moving import Importable


class LeasedTools(QueuePart[LeasedEngine], Importable):
    """What exports, imports and integrations call."""

    register_consumer = Method(consumers.register_consumer)
    renew_consumer = Method(consumers.renew_consumer)
    read_columns = Method(inspecting.read_columns)
    export_page = Method(moving.export_page)
    stored_states = moving.STATES
    _import_entry = staticmethod(moving.import_entry)
    import_chunk = Method(moving.import_chunk)


class LeasedMethods(QueueBase[LeasedEngine]):
    """The methods of LeasedQueue and AsyncLeasedQueue."""

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
    _tools = Part(LeasedTools)
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
    read = Method(inspecting.read)
    backlog = Method(inspecting.backlog)
    stats = Method(inspecting.stats)
    lease_info = Method(inspecting.lease_info)
    settled = Method(inspecting.settled)
