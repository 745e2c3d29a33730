"""The methods that the blocking and the asyncio class of a reliable queue share."""

from __future__ import annotations

from typing import Any

from rmq_core.discipline.reliable.config import CAPABILITIES, DISCIPLINE, ReliableConfig
from rmq_core.discipline.reliable.engine import ReliableEngine
from rmq_core.discipline.reliable.keys import ReliableKeys
from rmq_core.discipline.reliable.operations import claiming, inspecting, moving, publishing, reaping, settling
from rmq_core.envelope.stored import StoredMessage
from rmq_core.queue.base import Method, QueueBase
from rmq_core.queue.moving import ImportEntry, import_progress


class ReliableMethods(QueueBase[ReliableEngine]):
    """The methods of ReliableQueue and AsyncReliableQueue."""

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
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
    redrive = Method(inspecting.redrive)
    purge = Method(inspecting.purge)
    reap = Method(reaping.reap)
    export_page = Method(moving.export_page)
    import_progress = Method(import_progress)
    import_chunk = Method(moving.import_chunk)
    stored_states = moving.STATES

    def import_entry(self, message: StoredMessage, drop: frozenset[str] = frozenset()) -> ImportEntry:
        """Return a stored message as `import_chunk` takes it. Raises PayloadError or Unsupported if it cannot be."""
        return moving.import_entry(self._engine, message, drop)

    @property
    def worker(self) -> str:
        """The name under which this queue object claims."""
        return self._engine.worker
