"""`StreamQueue`: a stream and its group, with its own methods and those of WorkQueue, on the blocking drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmq_core.discipline.streams.admin import StreamAdmin
from rmq_core.discipline.streams.engine import StreamEngine
from rmq_core.discipline.streams.messages import QueueMessage
from rmq_core.discipline.streams.methods import StreamMethods
from rmq_core.discipline.streams.operations import native, settling
from rmq_core.envelope.codec import Message, MessageRef
from rmq_core.messages import Lease
from rmq_core.queue.base import Part
from rmq_core.queue.sync import Facade
from rmq_core.reports import SettleReport


class StreamQueue(StreamMethods, Facade[StreamEngine]):
    """A Redis stream, read by one consumer of a group. Threads may share it; it survives a fork.

    Takes `(redis, config)` or `(redis, name, config)`; `redis` is a redis-py client, a RedisSettings or a URL.
    enqueue, read, ack of a QueueMessage, claim_stale and backlog_stats make one attempt and raise QueueError. The
    methods of WorkQueue resend a request that got no reply. `on_event` gets a QueueEvent after each step.
    """

    admin = Part(StreamAdmin)

    def _connect(self, redis: Any) -> None:
        from rmq_core.exchange.once import once_driver  # loads redis-py; importing the class must not

        super()._connect(redis)
        self._native = once_driver(self.client, self._engine.prefix)

    def ack(self, lease: Lease | QueueMessage, messages: Sequence[Message | MessageRef] | None = None) -> SettleReport:
        """Finish a message that `read` returned, in one attempt; or all messages of a lease, or some of them.

        Acknowledging a message twice is no error: the second report says 0. Raises LeaseLost if `messages` is None and
        the lease is lost.
        """
        if isinstance(lease, QueueMessage):
            return SettleReport(self._native.run(native.acknowledge(self._engine, lease)))
        return self._driver.run(settling.ack(self._engine, lease, messages))

    def close(self) -> None:
        """Release messages of claims whose reply was lost, and close the connections. Other messages stay pending."""
        try:
            super().close()
        finally:
            self._native.close()
