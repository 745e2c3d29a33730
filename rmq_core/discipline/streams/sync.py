"""`StreamQueue`: a stream and its group, native and as a WorkQueue, run by the blocking drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rmq_core.discipline.streams.engine import StreamEngine
from rmq_core.discipline.streams.messages import QueueMessage
from rmq_core.discipline.streams.methods import StreamMethods
from rmq_core.discipline.streams.operations import native, settling
from rmq_core.envelope.codec import Message, MessageRef
from rmq_core.messages import Lease
from rmq_core.queue.sync import Facade
from rmq_core.reports import SettleReport


class StreamQueue(StreamMethods, Facade[StreamEngine]):
    """A Redis stream, read by one consumer of a group. Threads may share it; it survives a fork.

    `StreamQueue(redis, config)` or `StreamQueue(redis, name, config)`; `redis` is a redis-py client, a RedisSettings or
    a URL. enqueue, read, ack of a QueueMessage, claim_stale and backlog_stats make one attempt and raise QueueError;
    the methods of WorkQueue resend what got no answer. `on_event` gets a QueueEvent after each step.
    """

    def _connect(self, redis: Any) -> None:
        from rmq_core.exchange.once import once_driver  # noqa: PLC0415  loads redis-py, which naming a class must not

        super()._connect(redis)
        self._native = once_driver(self.client, self._engine.prefix)

    def ack(self, lease: Lease | QueueMessage, messages: Sequence[Message | MessageRef] | None = None) -> SettleReport:
        """Finish a message that `read` returned, in one attempt; or the messages of a lease, or some of them.

        Acknowledging a message twice is no error, the second report says 0. Raises LeaseLost for a whole lease that is
        gone.
        """
        if isinstance(lease, QueueMessage):
            return SettleReport(self._native.run(native.acknowledge(self._engine, lease)))
        return self._driver.run(settling.ack(self._engine, lease, messages))

    def close(self) -> None:
        """Give back what claims took whose answer never came, and close the connections. Pending messages stay so."""
        try:
            super().close()
        finally:
            self._native.close()
