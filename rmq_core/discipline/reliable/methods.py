"""The methods that the blocking and the asyncio class of a reliable queue share."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.reliable.config import CAPABILITIES, DISCIPLINE, ReliableConfig
from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.keys import ReliableKeys
from rmq_core.discipline.reliable.operations import (
    claiming,
    inspecting,
    managing,
    moving,
    publishing,
    reaping,
    settling,
)
from rmq_core.queue.base import Method, QueueBase


class ReliableMethods(QueueBase[ReliableEngine]):
    """The methods of ReliableQueue and AsyncReliableQueue."""

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
    verbs = frozenset({"redrive", "purge"})
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
    peek = Method(inspecting.peek)
    dead_letters = Method(inspecting.dead_letters)
    redrive = Method(managing.redrive)
    purge = Method(managing.purge)
    reap = Method(reaping.reap)
    export_page = Method(moving.export_page)
    stored_states = moving.STATES

    @property
    def worker(self) -> str:
        """The name under which this queue object claims."""
        return self._engine.worker
