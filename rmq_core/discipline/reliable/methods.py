"""The methods that the blocking and the asyncio class of a reliable queue share."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.reliable.config import CAPABILITIES, DISCIPLINE, ReliableConfig
from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.keys import ReliableKeys
from rmq_core.discipline.reliable.operations import (
    claiming,
    inspecting,
    moving,
    publishing,
    reaping,
    settling,
)
from rmq_core.queue.base import Method, Part, QueueBase, QueuePart


class ReliableTools(QueuePart[ReliableEngine]):
    """What exports call."""

    export_page = Method(moving.export_page)
    stored_states = moving.STATES


class ReliableMethods(QueueBase[ReliableEngine]):
    """The methods of ReliableQueue and AsyncReliableQueue."""

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
    _tools = Part(ReliableTools)
    _extend_all = staticmethod(settling.extend_all)
    _leave = staticmethod(settling.leave)

    def __init__(self, redis: Any, name: str, config: ReliableConfig | None = None) -> None:
        self.config = config or ReliableConfig()
        super().__init__(redis, ReliableEngine(ReliableKeys(name), self.config))

    publish = Method(publishing.publish)
    publish_many = Method(publishing.publish_many)
    claim = Method(claiming.claim)
    extend = Method(settling.extend)
    ack = Method(settling.ack)
    nack = Method(settling.nack)
    release = Method(settling.release)
    backlog = Method(inspecting.backlog)
    stats = Method(inspecting.stats)
    reap = Method(reaping.reap)

    @property
    def worker(self) -> str:
        """The name under which this queue object claims."""
        return self._engine.worker
