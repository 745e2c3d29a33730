"""`QueueConsumer` fetches messages, hands them to its caller, acknowledges them on request, and does nothing else.

It holds one message at a time. It acknowledges and retries nothing by itself, takes over messages only on request and
catches no exception of the application. `run` is optional: it handles, commits and acks in this order.
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
        """Begin no new read. A read or handler in progress goes on; messages not acknowledged stay pending."""
        self._stopping = True

    def next(self, block_ms: int | None = None) -> QueueMessage | None:
        """Return the next new message. Return None after `stop`, or when none comes within `block_ms`.

        None means the config's block_ms. A message that arrives while `stop` is called is returned. Raises QueueError.
        """
        if self._stopping:
            return None
        messages = self.queue.read(block_ms, 1)
        return messages[0] if messages else None

    def iter_messages(self) -> Iterator[QueueMessage]:
        """Yield new messages as they arrive, until `stop`. Raises QueueError."""
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
        """Until `stop`: fetch a message, call `handler(message, tx)`, commit, ack.

        An exception of the handler rolls the transaction back and is raised again. When an ack fails, the transaction
        is already committed, but the message will be redelivered: see `EffectsOnce`. Raises QueueError.
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
        """Process at most `count` stale messages as `run` does, taking over one at a time. Return how many.

        This is one pass; call it as often as needed. It also ends at `stop`, or when no message is stale. Raises
        QueueError.
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
        """Close the connections. Messages that are not acknowledged stay pending."""
        self.queue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_single(config: QueueConfig) -> None:
    """Raise ConfigurationError if the config fetches several messages at once: a consumer holds one at a time."""
    if not isinstance(config, QueueConfig):
        raise ConfigurationError(f"config must be a QueueConfig, not {type(config).__name__}")
    if config.max_read_count != 1:
        raise ConfigurationError(f"max_read_count must be 1 for a QueueConsumer, not {config.max_read_count}")
