"""`QueueConsumer`: fetches messages, hands them to its caller and acknowledges them on request, and does nothing else.

It holds one message at a time. It acknowledges and retries nothing by itself, takes over messages only on request and
catches no exception of the application. `run` is optional, and its order is fixed: handle, commit, acknowledge. A
failure up to the commit rolls the transaction back and is raised.

Delivery is at least once. With `EffectsOnce`, the transaction of a message's effects also writes a row for the message.
When the message is redelivered after its effects were committed, the handler is not called, and the message is
acknowledged. This works with any DB-API 2.0 connection to a database that supports `INSERT ... ON CONFLICT DO NOTHING`,
as SQLite (3.24) and PostgreSQL (9.5) do.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType, TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from rmq_core.errors import ConfigurationError
from rmq_core.events import OnEvent
from rmq_core.streams.aio import AsyncStreamQueue
from rmq_core.streams.queue import StreamQueue
from rmq_core.streams.state import QueueConfig, QueueMessage
from rmq_core.twin import Awaited, Blocking, Twin, awaited


class Stoppable(Protocol):
    """A consumer, blocking or asyncio."""

    def stop(self) -> None:
        """Begin no new read."""


@contextmanager
def stop_on_signals(*consumers: Stoppable, signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)) -> Iterator[None]:
    """While the block runs, stop these consumers on a signal; afterwards restore the former handlers.

    Raises ConfigurationError outside the main thread, where Python installs no signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ConfigurationError("enter stop_on_signals in the main thread; in other threads, call stop() yourself")

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        for consumer in consumers:
            consumer.stop()

    former = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_MARKS = {"qmark": "?, ?", "format": "%s, %s", "pyformat": "%s, %s", "numeric": ":1, :2"}


class DbTx(Protocol):
    """A transaction, such as a DB-API connection in which one has begun. For asyncio, its methods are coroutines."""

    def commit(self) -> Any:
        """Commit the transaction."""

    def rollback(self) -> Any:
        """Roll the transaction back."""


class Connection(DbTx, Protocol):
    """The methods of a DB-API 2.0 connection that are needed here."""

    def cursor(self) -> Any:
        """Return a cursor."""


C = TypeVar("C", bound=Connection)


class DbApi(Generic[C]):
    """A `db_factory` for `run`: the transactions of one DB-API connection, which begins each implicitly."""

    def __init__(self, connection: C) -> None:
        self.connection = connection

    def begin(self) -> C:
        """Return the connection; the first statement on it begins the transaction."""
        return self.connection


class EffectsOnce:
    """Makes handlers skip messages whose effects were committed before.

    paramstyle: that of the database module, such as `sqlite3.paramstyle`. table: the name of the table of rows.
    """

    def __init__(self, paramstyle: str, table: str = "rmq_processed") -> None:
        if paramstyle not in _MARKS:
            raise ConfigurationError(f"paramstyle must be one of {', '.join(_MARKS)}, not {paramstyle!r}")
        if not _NAME.fullmatch(table):
            raise ConfigurationError(f"table must be a plain SQL name, not {table!r}")
        self._create = (
            f"CREATE TABLE IF NOT EXISTS {table} (queue TEXT NOT NULL, message TEXT NOT NULL, "
            "processed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (queue, message))"
        )
        self._insert = f"INSERT INTO {table} (queue, message) VALUES ({_MARKS[paramstyle]}) ON CONFLICT DO NOTHING"  # noqa: S608  checked

    def create_table(self, connection: Connection) -> None:
        """Create the table if it is missing, and commit. Delete a row only when its message cannot be redelivered."""
        self._execute(connection, self._create)
        connection.commit()

    def first(self, message: QueueMessage, tx: Connection) -> bool:
        """Record in the transaction that this message is processed. Return False if an earlier transaction did so."""
        return self._execute(tx, self._insert, (f"{message.stream} {message.group}", message.id)) == 1

    def __call__(self, handler: Callable[[QueueMessage, C], object]) -> Callable[[QueueMessage, C], None]:
        """Return a handler that calls `handler` only for messages that were not processed before."""

        def handle(message: QueueMessage, tx: C) -> None:
            if self.first(message, tx):
                handler(message, tx)

        return handle

    def _execute(self, connection: Connection, statement: str, values: tuple[str, ...] = ()) -> int:
        cursor = connection.cursor()
        try:
            cursor.execute(statement, values)
            return int(cursor.rowcount)
        finally:
            cursor.close()


T_co = TypeVar("T_co", covariant=True)


class DbFactory(Protocol[T_co]):
    """A source of transactions."""

    def begin(self) -> T_co:
        """Return a new transaction."""


class AsyncDbFactory(Protocol[T_co]):
    """The asyncio version of DbFactory."""

    async def begin(self) -> T_co:
        """Return a new transaction."""


@asynccontextmanager
async def committed(tx: DbTx) -> AsyncIterator[None]:
    """Commit when the block ends. If the block or the commit raises, roll back and raise the exception again.

    This includes KeyboardInterrupt, SystemExit and a cancellation. An error of the rollback becomes a note on that
    exception and never replaces it.
    """
    try:
        yield
        await awaited(tx.commit())
    except BaseException as error:
        try:
            await awaited(tx.rollback())
        except Exception as failure:  # roll back after any error, then raise the first one
            error.add_note(f"the rollback failed too: {type(failure).__name__}: {failure}")
        raise


Tx = TypeVar("Tx", bound=DbTx)


class ConsumerBase:
    """The methods of QueueConsumer and AsyncQueueConsumer."""

    _queue_class: type[StreamQueue | AsyncStreamQueue]

    def __init__(self, redis: Any, config: QueueConfig, *, on_event: OnEvent | None = None) -> None:
        if not isinstance(config, QueueConfig):
            raise ConfigurationError(f"config must be a QueueConfig, not {type(config).__name__}")
        if config.max_read_count != 1:
            raise ConfigurationError(f"max_read_count must be 1 for a QueueConsumer, not {config.max_read_count}")
        self.queue: Any = self._queue_class(redis, config, on_event=on_event)
        self.config = config
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopping

    def stop(self) -> None:
        """Begin no new read. A read or handler in progress goes on; messages not acknowledged stay pending."""
        self._stopping = True

    @Twin
    async def next(self, block_ms: int | None = None) -> QueueMessage | None:
        """Return the next new message. Return None after `stop`, or when none comes within `block_ms`.

        None means the config's block_ms. A message that arrives while `stop` is called is returned. Raises QueueError.
        """
        if self._stopping:
            return None
        messages: list[QueueMessage] = await awaited(self.queue.read(block_ms, 1))
        return messages[0] if messages else None

    @Twin
    async def ack(self, message: QueueMessage) -> None:
        """Acknowledge a message; harmless when it was acknowledged before. Raises QueueError."""
        await awaited(self.queue.ack(message))

    @Twin
    async def claim_stale(self, min_idle_ms: int | None = None, count: int = 10) -> list[QueueMessage]:
        """Take over messages that were delivered long ago and not acknowledged; see StreamQueue. Raises QueueError."""
        found: list[QueueMessage] = await awaited(self.queue.claim_stale(min_idle_ms, count))
        return found

    @Twin
    async def run(
        self, *, handler: Callable[[QueueMessage, Tx], object], db_factory: DbFactory[Tx] | AsyncDbFactory[Tx]
    ) -> None:
        """Until `stop`: fetch a message, call `handler(message, tx)`, commit, ack.

        An exception of the handler rolls the transaction back and is raised again. When an ack fails, the transaction
        is already committed, but the message will be redelivered: see `EffectsOnce`. Raises QueueError.
        """
        while not self._stopping:
            message = await awaited(self.next())
            if message is not None:
                await self._process(message, handler, db_factory)

    @Twin
    async def run_claim_stale(
        self,
        *,
        handler: Callable[[QueueMessage, Tx], object],
        db_factory: DbFactory[Tx] | AsyncDbFactory[Tx],
        min_idle_ms: int | None = None,
        count: int = 10,
    ) -> int:
        """Process at most `count` stale messages as `run` does, taking over one at a time. Return how many.

        This is one pass; call it as often as needed. It also ends at `stop`, or when no message is stale. Raises
        QueueError.
        """
        for done in range(count):
            stale = [] if self._stopping else await awaited(self.claim_stale(min_idle_ms, 1))
            if not stale:
                return done
            await self._process(stale[0], handler, db_factory)
        return count

    async def _process(self, message: QueueMessage, handler: Callable[..., object], db_factory: Any) -> None:
        tx = await awaited(db_factory.begin())
        async with committed(tx):
            await awaited(handler(message, tx))
        await awaited(self.ack(message))

    @Twin
    async def close(self) -> None:
        """Close the connections. Messages that are not acknowledged stay pending."""
        await awaited(self.queue.close())


class QueueConsumer(ConsumerBase, Blocking):
    """One consumer of a group. `stop` may be called from any thread and from a signal handler."""

    _queue_class = StreamQueue

    def iter_messages(self) -> Iterator[QueueMessage]:
        """Yield new messages as they arrive, until `stop`. Raises QueueError."""
        while not self._stopping:
            message = self.next()
            if message is not None:
                yield message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncQueueConsumer(ConsumerBase, Awaited):
    """The asyncio version of QueueConsumer. `stop` may be called from the event loop and from a signal handler."""

    _queue_class = AsyncStreamQueue

    async def iter_messages(self) -> AsyncIterator[QueueMessage]:
        """Yield new messages as they arrive, until `stop`. Raises QueueError."""
        while not self._stopping:
            message = await self.next()
            if message is not None:
                yield message

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
