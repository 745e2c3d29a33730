"""`ReliableQueue`, its list of operations, and its `admin`."""

from __future__ import annotations

from typing import Any

from rmq_core.admin.configuring import Configured
from rmq_core.admin.verbs import Admin
from rmq_core.kernel.base import Method, Part, QueueBase, QueuePart, W
from rmq_core.queue import Facade
from rmq_core.reliable import claiming, inspecting, managing, publishing, reclaiming, settling
from rmq_core.reliable.state import CAPABILITIES, DISCIPLINE, ReliableConfig, ReliableEngine, ReliableKeys
from rmq_core.twin import Blocking


class ReliableTools(QueuePart[ReliableEngine, Any]):
    """What exports call."""

    export_page = Method(inspecting.export_page)
    stored_states = inspecting.STATES


class ReliableMethods(QueueBase[ReliableEngine]):
    """The methods of ReliableQueue and AsyncReliableQueue."""

    discipline = DISCIPLINE
    capabilities = CAPABILITIES
    _tools = Part(ReliableTools)
    _extend_all = staticmethod(settling.extend_all)
    _leave = staticmethod(settling.leave)

    def __init__(self, redis: Any, name: str, config: ReliableConfig | None = None) -> None:
        super().__init__(redis, ReliableEngine(ReliableKeys(name), config or ReliableConfig()))

    @property
    def config(self) -> ReliableConfig:
        """The settings in force: after the first call, those stored with the queue in place of the program's own."""
        return self._engine.config

    publish = Method(publishing.publish)
    publish_many = Method(publishing.publish_many)
    claim = Method(claiming.claim)
    extend = Method(settling.extend)
    ack = Method(settling.ack)
    nack = Method(settling.nack)
    release = Method(settling.release)
    backlog = Method(inspecting.backlog)
    stats = Method(inspecting.stats)
    reap = Method(reclaiming.reap)

    @property
    def worker(self) -> str:
        """The name under which this queue object claims."""
        return self._engine.worker


class ReliableAdmin(Configured, Admin[ReliableEngine, W]):
    """What operators do with a ReliableQueue: `queue.admin`."""

    peek = Method(inspecting.peek)
    dead_letters = Method(inspecting.dead_letters)
    redrive = Method(managing.redrive)
    purge = Method(managing.purge)


class ReliableQueue(ReliableMethods, Facade[ReliableEngine, Any]):
    """A queue whose messages stay in a list of their worker until they are acked. Threads may share it.

    `redis` is a redis-py client, a RedisSettings or a URL; the queue closes only a client it made itself. Messages of
    workers that died are requeued only while a Reaper runs in some process.
    """

    admin = Part(ReliableAdmin[Blocking])
