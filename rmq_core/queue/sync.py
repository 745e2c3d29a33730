"""`Facade`: the operations of a queue as methods, run by the blocking driver."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import Any, Self

from rmq_core.batch import Batch
from rmq_core.connection.clients import server_of, sync_client
from rmq_core.envelope.codec import Message
from rmq_core.exchange import Patience
from rmq_core.interrupt_handler import Stop
from rmq_core.messages import Lease, token_of
from rmq_core.policy import seconds
from rmq_core.queue.base import Blocking, E, QueueBase
from rmq_core.queue.heartbeats import Extender, Heartbeat, heartbeats
from rmq_core.queue.process import Process, failure_logged, reason_of
from rmq_core.queue.recording import flush, one_attempt
from rmq_core.queue.running import BlockingRun, RunOptions
from rmq_core.queue.settle import open_places
from rmq_core.reports import RunReport


class Facade(QueueBase[E], Blocking):
    """A queue over a redis-py client, RedisSettings or a URL; it closes only a client it made itself.

    A queue class combines a list of operations with this class; the list must hold `claim`, `ack` and `nack`.
    """

    def _connect(self, redis: Any) -> None:
        from rmq_core.exchange.public import sync_driver  # loads redis-py, which an import must not do

        engine = self._engine
        self.client, self._owned = sync_client(redis)
        self.server = server_of(self.client)
        self._driver = sync_driver(self.client, engine.prefix, engine.retry_budget_s)

    def hold(
        self, lease: Lease, by: timedelta | float | None = None, on_lost: Callable[[Lease], object] | None = None
    ) -> AbstractContextManager[Lease]:
        """Let the heartbeat thread extend a lease while the block runs; it calls `on_lost(lease)` if the lease is lost.

        by: the length of each extension, in seconds or as a timedelta; None for the queue's lease.
        """
        return self._hold(lease, by, on_lost)

    @contextmanager
    def _hold(
        self,
        lease: Lease,
        by: timedelta | float | None,
        on_lost: Callable[[Lease], object] | None = None,
        *,
        fresh: bool = False,
    ) -> Iterator[Lease]:
        token_of(lease)  # raises for a lease without a token, which would stop the heartbeat of the other leases
        lease_s = self._engine.beat_s if by is None else by
        if lease_s is None:
            yield lease
            return
        heartbeat: Heartbeat[Extender] = Heartbeat(self, lease, seconds("by", lease_s, minimum=0.001), on_lost, fresh)
        heartbeats.add(heartbeat)
        try:
            yield lease
        finally:
            heartbeats.remove(heartbeat)
            heartbeat.end()

    def process(
        self,
        *,
        max_messages: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        lease_id: str | None = None,
        owner: str | None = None,
    ) -> Process:
        """Claim, keep the lease alive while the block runs, ack when it ends, nack when it raises.

        Yields a Batch, which is empty, and false, when there is no work. An exception propagates after the nack;
        KeyboardInterrupt, SystemExit and GeneratorExit leave the lease alone; its messages are redelivered when it
        expires. Messages settled in the block stay settled; the end of the block settles the rest, or raises LeaseLost
        if `batch.lease.lost` was true before. Takes the arguments of `claim`. Also decorates a function that takes a
        Batch; it is not called when there is no work.
        """
        claim = functools.partial(
            self._verbs.claim, max_messages=max_messages, lease=lease, wait=wait, lease_id=lease_id, owner=owner
        )
        return Process(functools.partial(self._process, claim, lease))

    @contextmanager
    def _process(self, claim: Callable[[], Lease | None], by: timedelta | float | None) -> Iterator[Batch]:
        held = claim()
        batch = Batch(self._verbs, held)
        if held is None:
            yield batch
            return
        with self._hold(held, by, fresh=True):
            try:
                yield batch
            except Exception as error:
                with failure_logged(held):
                    batch.give_up(reason_of(error))
                raise
            batch.finish()

    def run(
        self,
        handler: Callable[[Any], object],
        *,
        max_messages: int | None = None,
        concurrency: int = 1,
        lease: timedelta | float | None = None,
        wait: timedelta | float = 0,
        until_empty: bool = False,
        retry_after: timedelta | float | None = None,
        owner: str | None = None,
        stop: Stop | None = None,
    ) -> RunReport:
        """Claim and pass messages to `handler` until stopped; ack what it returns for, nack what it raises for.

        handler: a plain function. It gets one message; with `max_messages`, a batch of at most that many,
        whose messages it may settle one by one. An error is logged and is the reason of the nack; the queue's backoff
        applies, or `retry_after` (seconds or timedelta) replaces it. concurrency: how many threads work at once; one
        works in the calling thread.
        until_empty: return when no message was ready for `wait` (seconds or timedelta). lease, owner: as for `claim`.

        SIGINT and SIGTERM let the handlers finish, then `run` returns; a second signal releases their messages and
        raises KeyboardInterrupt. They are handled in the main thread only, and not if `stop`, such as a
        threading.Event, is passed: then the run stops once it is set. A lost lease, or a Redis that is away, is logged,
        and the run goes on; with `until_empty`, QueueUnavailable is raised. Raises ConfigurationError, Unsupported.
        """
        options = RunOptions(
            max_messages=max_messages,
            concurrency=concurrency,
            lease=lease,
            wait=wait,
            until_empty=until_empty,
            retry_after=retry_after,
            owner=owner,
            stop=stop,
        )
        return BlockingRun(self, self._hold, handler, options).run()

    def _counted(self, result: Any, driver: Any = None) -> Any:
        tally = self._tally
        if tally is not None and tally.noted and monotonic() >= tally.next_at:
            (driver or self._driver).run(flush(self._recorder, result), one_attempt())
        return result

    def extend_all(self, leases: Sequence[tuple[Lease, float | None]]) -> list[bool]:
        """Extend many leases in one write, each by its own seconds; return False for each that is lost. One attempt."""
        try:
            return self._driver.run(self._extend_all(self._engine, leases), Patience(0))
        finally:
            if self._tally is not None and self._tally.noted and self._driver.connected:
                self._driver.run(flush(self._recorder), one_attempt())
            if self._closed:  # `close` ran meanwhile and could not close the connection in use here
                self._close_clients()

    def close(self) -> None:
        """Release claims whose reply never arrived, and return the connections to the pool."""
        self._closed = True
        try:
            self._driver.run(self._leave(self._engine))
            if self._tally is not None and self._driver.connected:
                self._driver.run(flush(self._recorder), one_attempt())
        finally:
            self._close_clients()

    def _close_clients(self) -> None:
        self._driver.close()
        if self._owned:
            self.client.close()

    def messages(self, lease: Lease) -> Iterator[Message]:
        """Return an iterator over the messages of a lease that are not settled yet, in order."""
        found = lease.messages
        return (found[place] for place in open_places(lease))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LargeLeaseFacade(Facade[E]):
    """A queue whose leases may be too large for one reply; `read` must be among its operations."""

    def messages(self, lease: Lease, slice_size: int = 1000) -> Iterator[Message]:
        """Return an iterator over the unsettled messages, in order; it reads slices as needed. Raises LeaseLost."""
        if lease.complete and not lease.state.partly:
            return iter(lease.messages)
        return self._read(lease, slice_size)

    def _read(self, lease: Lease, slice_size: int) -> Iterator[Message]:
        for lo in range(0, lease.count, slice_size):
            yield from self._verbs.read(lease, lo, lo + slice_size)
