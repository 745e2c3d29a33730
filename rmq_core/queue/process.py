"""`queue.process(...)`: a block, or a decorated function, that holds a lease and settles it at its end."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from rmq_core.errors import LeaseLost, RedisMessageQueueError
from rmq_core.messages import Lease

P = ParamSpec("P")
R = TypeVar("R")
_log = logging.getLogger("rmq")


class Process(AbstractContextManager["Lease | None", "bool | None"]):
    """`with queue.process() as lease:`, or `@queue.process()` above `def handle(lease): ...`."""

    def __init__(self, block: Callable[[], AbstractContextManager[Lease | None]]) -> None:
        self._block = block
        self._entered: list[AbstractContextManager[Lease | None]] = []

    def __enter__(self) -> Lease | None:
        entered = self._block()
        lease = entered.__enter__()
        self._entered.append(entered)
        return lease

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._entered.pop().__exit__(kind, error, trace)

    def __call__(self, handler: Callable[Concatenate[Lease, P], R]) -> Callable[P, R | None]:
        """Return a function that claims and then calls the handler; it returns None when there is no work."""

        @functools.wraps(handler)
        def handle(*args: P.args, **kwargs: P.kwargs) -> R | None:
            with self._block() as lease:
                return None if lease is None else handler(lease, *args, **kwargs)

        return handle


class AsyncProcess(AbstractAsyncContextManager["Lease | None", "bool | None"]):
    """The asyncio version of Process."""

    def __init__(self, block: Callable[[], AbstractAsyncContextManager[Lease | None]]) -> None:
        self._block = block
        self._entered: list[AbstractAsyncContextManager[Lease | None]] = []

    async def __aenter__(self) -> Lease | None:
        entered = self._block()
        lease = await entered.__aenter__()
        self._entered.append(entered)
        return lease

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._entered.pop().__aexit__(kind, error, trace)

    def __call__(self, handler: Callable[Concatenate[Lease, P], Awaitable[R]]) -> Callable[P, Awaitable[R | None]]:
        """Return a coroutine function that claims, then awaits the handler; it returns None when there is no work."""

        @functools.wraps(handler)
        async def handle(*args: P.args, **kwargs: P.kwargs) -> R | None:
            async with self._block() as lease:
                return None if lease is None else await handler(lease, *args, **kwargs)

        return handle


def is_open(lease: Lease) -> bool:
    """Return whether the end of a block has to ack the lease.

    Raises LeaseLost if the block could know that the lease is lost: it may have left its work, which an ack would lose,
    even if Redis would accept it. Otherwise the token decides, however long ago the last heartbeat was.
    """
    if lease.state.lost and not lease.state.settled:
        raise LeaseLost(lease.id, "it could not be extended in time, so the end of the block did not ack it")
    return not lease.state.settled


def reason_of(error: BaseException) -> str:
    """Return the reason of a nack that an exception caused."""
    return f"{type(error).__name__}: {error}"


def nack_failed(lease: Lease, error: RedisMessageQueueError) -> None:
    """Log that a nack failed; do not raise, so that the handler's exception propagates. The lease is left to expire."""
    _log.warning("lease %r could not be nacked after its handler failed: %s", lease.id, error)
