"""`StreamQueue`, its list of operations, and its `admin`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmq_core.admin.verbs import Admin
from rmq_core.envelope.codec import Message, MessageRef
from rmq_core.events import OnEvent
from rmq_core.kernel.base import Method, Part, QueuePart, W
from rmq_core.messages import Lease
from rmq_core.queue import Connected, Facade
from rmq_core.reports import SettleReport
from rmq_core.streams import claiming, inspecting, native, publishing, settling
from rmq_core.streams.state import CAPABILITIES, QueueConfig, QueueMessage, StreamEngine, engine_of
from rmq_core.twin import Awaited, Blocking, Twin, awaited


class StreamTools(QueuePart[StreamEngine, Any]):
    """What exports call."""

    export_page = Method(inspecting.export_page)
    stored_states = inspecting.STATES


class StreamMethods(Connected[StreamEngine]):
    """The methods of StreamQueue and AsyncStreamQueue."""

    discipline = "streams"
    capabilities = CAPABILITIES
    _tools = Part(StreamTools)
    _extend_all = staticmethod(claiming.extend_all)
    _leave = staticmethod(settling.give_back_unanswered)

    def __init__(
        self, redis: Any, name: str | QueueConfig, config: QueueConfig | None = None, *, on_event: OnEvent | None = None
    ) -> None:
        super().__init__(redis, engine_of(name, config, on_event))
        self.config = self._engine.config

    def _connect(self, redis: Any) -> None:
        from rmq_core.exchange.once import (  # loads redis-py; importing the class must not
            async_once_driver,
            once_driver,
        )

        super()._connect(redis)
        make = async_once_driver if isinstance(self, Awaited) else once_driver
        self._native: Any = make(self.client, self._engine.prefix)

    enqueue = Method(native.enqueue, once=True)
    read = Method(native.read, once=True)
    claim_stale = Method(native.claim_stale, once=True)
    backlog_stats = Method(native.backlog_stats, once=True)

    publish = Method(publishing.publish)
    publish_many = Method(publishing.publish_many)
    claim = Method(claiming.claim)
    extend = Method(claiming.extend)
    nack = Method(settling.nack)
    release = Method(settling.release)
    backlog = Method(inspecting.backlog)
    stats = Method(inspecting.stats)
    trim = Method(inspecting.trim)

    @Twin
    async def ack(
        self, lease: Lease | QueueMessage, messages: Sequence[Message | MessageRef] | None = None
    ) -> SettleReport:
        """Finish a message that `read` returned, in one attempt; or all messages of a lease, or some of them.

        Acknowledging a message twice is no error: the second report says 0. Raises LeaseLost if `messages` is None and
        the lease is lost.
        """
        if isinstance(lease, QueueMessage):
            return SettleReport(await awaited(self._native.run(native.acknowledge(self._engine, lease))))
        report: SettleReport = await awaited(self._driver.run(settling.ack(self._engine, lease, messages)))
        return report

    @Twin
    async def close(self) -> None:
        """Release messages of claims whose reply was lost, and close the connections. Other messages stay pending."""
        try:
            await awaited(super().close())
        finally:
            await awaited(self._native.close())


class StreamAdmin(Admin[StreamEngine, W]):
    """What operators do with a StreamQueue: `queue.admin`."""

    peek = Method(inspecting.peek)
    purge = Method(inspecting.purge)


class StreamQueue(StreamMethods, Facade[StreamEngine, Any]):
    """A Redis stream, read by one consumer of a group. Threads may share it; it survives a fork.

    Takes `(redis, config)` or `(redis, name, config)`; `redis` is a redis-py client, a RedisSettings or a URL.
    enqueue, read, ack of a QueueMessage, claim_stale and backlog_stats make one attempt and raise QueueError. The
    methods of WorkQueue resend a request that got no reply. `on_event` gets a QueueEvent after each step.
    """

    admin = Part(StreamAdmin[Blocking])
