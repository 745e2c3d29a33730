"""`QueueConsumer`: fetch, hand over, acknowledge when told to; and stop. Control flow, no guarantee of its own.

It holds one message at a time, acknowledges nothing by itself, retries nothing, reclaims nothing unless it is called to
and catches no exception of the application. `run` is an offer that puts handling, commit and ack into their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from rmq_core.discipline.streams.config import QueueConfig
from rmq_core.discipline.streams.messages import QueueMessage
from rmq_core.discipline.streams.sync import StreamQueue
from rmq_core.discipline.streams.transactions import DbFactory, DbTx, committed
from rmq_core.errors import ConfigurationError
from rmq_core.events import OnEvent

Tx = TypeVar("Tx", bound=DbTx)


class QueueConsumer:
    """One consumer of a group. `stop` may be called from any thread and from a signal handler."""

    def __init__(self, redis: Any, config: QueueConfig, *, on_event: OnEvent | None = None) -> None:
        check_single(config)
        self.queue = StreamQueue(redis, config, on_event=on_event)
        self.config = config
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def stop(self) -> None:
        """Read no more. What is being read or handled goes on; what is not acknowledged stays pending."""
        self._stopping = True

    def next(self, block_ms: int | None = None) -> QueueMessage | None:
        """The next new message, or None when none came within `block_ms` (the config's when None), or after `stop`.

        A message that comes while the consumer is told to stop is returned. Raises QueueError.
        """
        if self._stopping:
            return None
        messages = self.queue.read(block_ms, 1)
        return messages[0] if messages else None

    def iter_messages(self) -> Iterator[QueueMessage]:
        """New messages as they come, until `stop`. Raises QueueError."""
        while not self._stopping:
            message = self.next()
            if message is not None:
                yield message

    def ack(self, message: QueueMessage) -> None:
        """Acknowledge a message; harmless when it was acknowledged before. Raises QueueError."""
        self.queue.ack(message)

    def claim_stale(self, min_idle_ms: int | None = None, count: int = 10) -> list[QueueMessage]:
        """Take over messages that were delivered long ago and not acknowledged; see StreamQueue. Raises QueueError."""
        return self.queue.claim_stale(min_idle_ms, count)

    def run(self, *, handler: Callable[[QueueMessage, Tx], object], db_factory: DbFactory[Tx]) -> None:
        """Until `stop`: fetch, `handler(message, tx)`, commit, ack. What the handler raises is rolled back and raised.

        When an ack fails, its message was committed and will be delivered again: see `EffectsOnce`. Raises QueueError.
        """
        for message in self.iter_messages():
            self._process(message, handler, db_factory)

    def run_claim_stale(
        self,
        *,
        handler: Callable[[QueueMessage, Tx], object],
        db_factory: DbFactory[Tx],
        min_idle_ms: int | None = None,
        count: int = 10,
    ) -> int:
        """Process at most `count` stale messages as `run` does, taking over one at a time; how many that were.

        One pass, when the application decides; it ends at `stop`, and when nothing is stale. Raises QueueError.
        """
        for done in range(count):
            stale = [] if self._stopping else self.claim_stale(min_idle_ms, 1)
            if not stale:
                return done
            self._process(stale[0], handler, db_factory)
        return count

    def _process(
        self, message: QueueMessage, handler: Callable[[QueueMessage, Tx], object], db_factory: DbFactory[Tx]
    ) -> None:
        tx = db_factory.begin()
        with committed(tx):
            handler(message, tx)
        self.ack(message)

    def close(self) -> None:
        """Close the connections. What is not acknowledged stays pending."""
        self.queue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_single(config: QueueConfig) -> None:
    """A consumer holds one message at a time, so it must not be told to fetch several."""
    if not isinstance(config, QueueConfig):
        raise ConfigurationError(f"config must be a QueueConfig, not {type(config).__name__}")
    if config.max_read_count != 1:
        raise ConfigurationError(f"max_read_count must be 1 for a QueueConsumer, not {config.max_read_count}")
