"""`process` and `run`, which call users' code.

Law of `run`: the end of the handler settles what it was given. It returns: acked. It raises: nacked, with the error as
the reason. A second signal, or a cancellation, interrupts it: released, and no delivery is counted.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from rmq_core.batch import AsyncBatch, Batch
from rmq_core.envelope.codec import P
from rmq_core.errors import ConfigurationError, LeaseLost, NotDurable, QueueUnavailable, RedisMessageQueueError
from rmq_core.interrupt_handler import Stop, Stopping
from rmq_core.messages import Lease
from rmq_core.policy import seconds, whole
from rmq_core.protocol import lacking
from rmq_core.reports import RunReport
from rmq_core.twin import stepped

A = ParamSpec("A")
R = TypeVar("R")
_log = logging.getLogger("rmq")


class Process(AbstractContextManager[Batch[P], "bool | None"], Generic[P]):
    """`with queue.process() as batch:`, or `@queue.process()` above `def handle(batch): ...`."""

    def __init__(self, block: Callable[[], AbstractContextManager[Batch[P]]]) -> None:
        self._block = block
        self._entered: list[AbstractContextManager[Batch[P]]] = []

    def __enter__(self) -> Batch[P]:
        entered = self._block()
        batch = entered.__enter__()
        self._entered.append(entered)
        return batch

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._entered.pop().__exit__(kind, error, trace)

    def __call__(self, handler: Callable[Concatenate[Batch[P], A], R]) -> Callable[A, R | None]:
        """Return a function that claims and then calls the handler; it returns None when there is no work."""

        @functools.wraps(handler)
        def handle(*args: A.args, **kwargs: A.kwargs) -> R | None:
            with self._block() as batch:
                return handler(batch, *args, **kwargs) if batch.any_fits() else None

        return handle


class AsyncProcess(AbstractAsyncContextManager[AsyncBatch[P], "bool | None"], Generic[P]):
    """The asyncio version of Process."""

    def __init__(self, block: Callable[[], AbstractAsyncContextManager[AsyncBatch[P]]]) -> None:
        self._block = block
        self._entered: list[AbstractAsyncContextManager[AsyncBatch[P]]] = []

    async def __aenter__(self) -> AsyncBatch[P]:
        entered = self._block()
        batch = await entered.__aenter__()
        self._entered.append(entered)
        return batch

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._entered.pop().__aexit__(kind, error, trace)

    def __call__(
        self, handler: Callable[Concatenate[AsyncBatch[P], A], Awaitable[R]]
    ) -> Callable[A, Awaitable[R | None]]:
        """Return a coroutine function that claims, then awaits the handler; it returns None when there is no work."""

        @functools.wraps(handler)
        async def handle(*args: A.args, **kwargs: A.kwargs) -> R | None:
            async with self._block() as batch:
                return await handler(batch, *args, **kwargs) if await batch.any_fits() else None

        return handle


def reason_of(error: BaseException) -> str:
    """Return the reason of a nack that an exception caused."""
    return f"{type(error).__name__}: {error}"


@contextmanager
def failure_logged(lease: Lease) -> Iterator[None]:
    """Log that a nack failed instead of raising, so that the handler's exception propagates. The lease will expire."""
    try:
        yield
    except RedisMessageQueueError as error:
        _log.warning("lease %r could not be nacked after its handler failed: %s", lease.id, error)


_TURN_S = 1.0  # how long a waiting claim may go on after a stop
_JOIN_S = 0.2  # how long the main thread may handle a signal late
PAUSE_S = 1.0  # after a call for which Redis was away throughout its retry budget
_MINUTE_S = 60.0


class Refused(Exception):
    """Raised by a handler to nack with its text as the reason; it is not logged."""


class Abandoned(BaseException):
    """Raised where a handler cannot work on any message: its message is released, and the run ends with the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The arguments of `run`, checked."""

    max_messages: int | None = None
    concurrency: int = 1
    lease: timedelta | float | None = None
    wait: timedelta | float = 0
    until_empty: bool = False
    retry_after: timedelta | float | None = None
    owner: str | None = None
    stop: Stop | None = None
    groups: Collection[str] | None = None
    alive: str | os.PathLike[str] | None = None
    idle_s: float = field(init=False)
    """For how long no message may be ready before a worker ends."""

    def __post_init__(self) -> None:
        whole("max_messages", 1 if self.max_messages is None else self.max_messages, minimum=1)
        whole("concurrency", self.concurrency, minimum=1)
        if self.retry_after is not None:
            seconds("retry_after", self.retry_after)
        self.show_alive()
        wait_s = seconds("wait", self.wait)
        object.__setattr__(self, "idle_s", wait_s if self.until_empty else inf)

    def show_alive(self) -> None:
        """Set the time of the file `alive`. Raises ConfigurationError if it cannot be written."""
        if self.alive is not None:
            try:
                Path(self.alive).touch()
            except OSError as error:
                raise ConfigurationError(f"alive must be a file that can be written: {error}") from error


class Run(ABC):
    """The loop of a run. Its workers share the counts, and the leases that are held."""

    asynchronous: bool
    interruptions: tuple[type[BaseException], ...] = (KeyboardInterrupt, Abandoned)
    """What is not the fault of the message on which the handler works."""

    def __init__(
        self, queue: Any, hold: Callable[..., Any], handler: Callable[[Any], object], options: RunOptions
    ) -> None:
        self.queue, self.handler, self.options = queue, handler, options
        self.report = RunReport()
        self._hold, self._stop = hold, options.stop or threading.Event()
        self._held: dict[str, Lease] = {}
        self._ending = self._interrupted = False
        self._counting = threading.Lock()
        self._logged, self._log_at = self.report, time.monotonic() + _MINUTE_S
        self._batch = AsyncBatch if self.asynchronous else Batch
        _check(queue, handler, options, asynchronous=self.asynchronous)

    @abstractmethod
    async def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a method of the queue, or the handler, and return its result."""

    @abstractmethod
    async def pause(self) -> None:
        """Sleep before another try."""

    @abstractmethod
    def heartbeats(self, lease: Lease) -> AbstractAsyncContextManager[object]:
        """Return a context that keeps a lease alive, if the discipline can extend leases."""

    def blames(self, error: BaseException) -> bool:
        """Return whether an error of the handler is a failure of its message. `sys.exit` in a handler is one, too."""
        return isinstance(error, Exception | SystemExit)

    @contextmanager
    def stopping(self, on_signals: Callable[[], Stopping]) -> Iterator[None]:
        """Stop at SIGINT and SIGTERM, in the main thread, unless the caller passed `stop`."""
        if self.options.stop is None and threading.current_thread() is threading.main_thread():
            with closing(on_signals()) as self._stop, cause_of_the_end():
                yield
        else:
            with cause_of_the_end():
                yield
        _log.info("queue %r: the run ended: %s", self.queue.name, self.report)

    async def work(self) -> None:
        """Claim and settle until stopped, or until no message was ready for long enough. Each worker runs this."""
        left_s = self.options.idle_s
        while not (self._ending or self._stop.is_set()):
            turn_s = min(left_s, _TURN_S)
            self.options.show_alive()
            if await self._turn(turn_s):
                left_s = self.options.idle_s
            elif (left_s := left_s - turn_s) <= 0:
                return
            await self._tell()

    async def _turn(self, wait_s: float) -> bool:
        """Wait for messages and work on them. Return whether there were any."""
        options = self.options
        terms: dict[str, Any] = {
            "max_messages": options.max_messages or 1,
            "lease": options.lease,
            "owner": options.owner,
        }
        if options.groups is not None:
            terms["groups"] = options.groups
        try:
            lease = await self.call(self.queue.claim, wait=wait_s, **terms)
            if lease is not None:
                await self._deal(lease)
        except QueueUnavailable as error:
            if options.until_empty:
                raise
            _log.warning("queue %r: %s; the run goes on trying", self.queue.name, error)
            await self.pause()
            return False
        return lease is not None

    async def _deal(self, lease: Lease) -> None:
        self._held[lease.id] = lease
        try:
            if self._interrupted:  # meanwhile, by another thread
                raise Abandoned
            async with self.heartbeats(lease):
                batch = self._batch(self.queue, lease)
                await self._settle(batch, await self._handle(batch))
        except self.interruptions:
            with suppress(RedisMessageQueueError):  # what cannot be released now returns when the lease expires
                if not lease.state.settled:
                    await self.call(self.queue.release, lease)
            raise
        finally:
            del self._held[lease.id]

    async def _handle(self, batch: Batch | AsyncBatch) -> BaseException | None:
        """Call the handler. Return the error with which it failed."""
        try:
            given: Any = batch.lease.message if self.options.max_messages is None else batch
            if given is not batch and batch.lease.state.codec and not await self.call(batch.fits, given):
                return None  # it is a dead letter now
            result = await self.call(self.handler, given)
            try:
                check_done("handler", result)
            except ConfigurationError as error:  # it ends the run
                raise Abandoned from error
        except BaseException as error:
            if not self.blames(error):
                raise
            return error
        return None

    async def _settle(self, batch: Batch | AsyncBatch, failure: BaseException | None) -> None:
        """Ack or nack what the handler left unsettled."""
        lease = batch.lease
        left = lease.count - len(lease.state.done)
        try:
            if isinstance(failure, LeaseLost) and failure.lease_id == lease.id:
                raise failure
            if failure is None:
                await self.call(batch.finish)
            else:
                await self.call(batch.give_up, self._reason(lease, failure), delay=self.options.retry_after)
        except LeaseLost as error:
            self._count(lost=left)
            _log.warning("queue %r: %s", self.queue.name, error)
        except NotDurable as error:  # acked nevertheless
            self._count(handled=left)
            _log.warning("queue %r: %s", self.queue.name, error)
        except QueueUnavailable:
            self._count(lost=left)
            raise
        finally:
            self._count(handled=batch.acked, failed=batch.failed, dead=batch.dead)

    def _reason(self, lease: Lease, failure: BaseException) -> str:
        if isinstance(failure, Refused):
            return str(failure)
        reason = reason_of(failure)
        _log.error("queue %r: the handler failed (lease %s): %s", self.queue.name, lease.id, reason, exc_info=failure)
        return reason

    def _count(self, **counts: int) -> None:
        with self._counting:
            now = self.report
            self.report = now._replace(**{name: getattr(now, name) + number for name, number in counts.items()})

    async def _tell(self) -> None:
        """Log once a minute what the run did since."""
        if time.monotonic() < self._log_at:
            return
        with self._counting:
            if time.monotonic() < self._log_at:
                return
            before, self._logged, self._log_at = self._logged, self.report, time.monotonic() + _MINUTE_S
        since = RunReport._make(now - then for now, then in zip(self._logged, before, strict=True))
        ready = "an unknown number of"
        with suppress(RedisMessageQueueError):
            ready = f"{(await self.call(self.queue.backlog)).ready:,}"
        _log.info("queue %r: in the last minute %s; %s ready", self.queue.name, since, ready)


class BlockingRun(Run):
    """A run of a blocking queue: in the calling thread, or in several threads."""

    asynchronous = False

    async def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return function(*args, **options)

    async def pause(self) -> None:
        time.sleep(PAUSE_S)  # noqa: ASYNC251  never runs in an event loop

    @asynccontextmanager
    async def heartbeats(self, lease: Lease) -> AsyncIterator[None]:
        with self._hold(lease, self.options.lease, fresh=True):
            yield

    def run(self) -> RunReport:
        """Return when all workers have ended. Raise the first error of one, or KeyboardInterrupt."""
        with self.stopping(Stopping):
            if self.options.concurrency == 1:
                stepped(self.work())
            else:
                self._run_threads()
        return self.report

    def _run_threads(self) -> None:
        failures: list[BaseException] = []

        def work() -> None:
            try:
                stepped(self.work())
            except BaseException as error:
                failures.append(error)
                self._ending = True

        # Daemons: a handler that does not return must not keep the process alive after a second signal.
        threads = [
            threading.Thread(target=work, name=f"rmq-run-{number}", daemon=True)
            for number in range(self.options.concurrency)
        ]
        try:
            for thread in threads:
                thread.start()
            # By turns: of two signals at once the kernel hands one to another thread, which does not end a `join`.
            while alive := [thread for thread in threads if thread.is_alive()]:
                alive[0].join(_JOIN_S)
        except BaseException:
            self._interrupt(threads)
            raise
        if failures:
            raise failures[0]

    def _interrupt(self, threads: list[threading.Thread]) -> None:
        """Release what handlers still work on, in threads that cannot be interrupted. Claims under way end by then."""
        self._ending = self._interrupted = True
        until = time.monotonic() + 2 * _TURN_S
        while sum(map(threading.Thread.is_alive, threads)) > len(self._held) and time.monotonic() < until:
            time.sleep(0.01)
        for lease in list(self._held.values()):
            with suppress(RedisMessageQueueError):
                self.queue.release(lease)


@contextmanager
def cause_of_the_end() -> Iterator[None]:
    """Raise the cause of Abandoned instead of it."""
    try:
        yield
    except Abandoned as ended:
        raise ended.__cause__ or ended from None


def is_awaited(handler: Callable[..., object]) -> bool:
    """Return whether a handler is a coroutine function, or an object whose call is one."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004  the method itself is inspected
    )


def check_done(name: str, result: object) -> None:
    """Raise ConfigurationError if the function `name` returned an awaitable or a generator, whose code has not run.

    Callers ask this before they ack, because the ack would lose that work.
    """
    if inspect.iscoroutine(result):
        result.close()  # without this, Python warns that it was never awaited
    if inspect.isawaitable(result):
        raise ConfigurationError(f"{name} returned an awaitable; write it as `async def`, or call asyncio.run inside")
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise ConfigurationError(f"{name} returned a generator, which has not run yet; iterate over it inside")


def _check(queue: Any, handler: object, options: RunOptions, *, asynchronous: bool) -> None:
    if not callable(handler):
        raise ConfigurationError(f"handler must be a function of one argument, not {type(handler).__name__}")
    if asynchronous and not is_awaited(handler):
        raise ConfigurationError(
            "handler must be an `async def` function here, because another would block the event loop; the queue of"
            " the same name in `rmq_core` runs plain functions, in threads"
        )
    if is_awaited(handler) and not asynchronous:
        raise ConfigurationError(
            "handler is an `async def` function, which a blocking queue cannot await; use the queue of the same name"
            " in `rmq_core.asyncio`"
        )
    if options.retry_after is not None and not queue.capabilities.delay:
        raise lacking(queue.discipline, "delay", "retry_after")
