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
    selecting,
    settling,
)
from rmq_core.queue.base import Method, QueueBase
from rmq_core.queue.recording import Recorded
from rmq_core.queue.verbs import cannot


class ReliableMethods(Recorded, QueueBase[ReliableEngine]):
    """The methods of ReliableQueue and AsyncReliableQueue."""

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
    verbs = frozenset({"search", "dead_reasons", "discard", "redrive", "redrive_where", "purge", "purge_where"})
    uncounted = frozenset({"duplicates", "taken_over", "isolated"})
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
    search = Method(selecting.search)
    dead_reasons = Method(selecting.dead_reasons)
    discard = Method(selecting.discard)
    expire_lease = Method(cannot(DISCIPLINE, "expire_lease"))
    run_now = Method(cannot(DISCIPLINE, "run_now"))
    cancel = Method(cannot(DISCIPLINE, "cancel"))
    redrive_edited = Method(cannot(DISCIPLINE, "redrive_edited"))
    reap = Method(reaping.reap)
    export_page = Method(moving.export_page)
    stored_states = moving.STATES

    @property
    def worker(self) -> str:
        """The name under which this queue object claims."""
        return self._engine.worker
