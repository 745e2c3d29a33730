"""`queue.process(...)`: a block, or a decorated function, that holds a batch and settles it at its end."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from rmq_core.batch import AsyncBatch, Batch
from rmq_core.errors import RedisMessageQueueError
from rmq_core.messages import Lease

P = ParamSpec("P")
R = TypeVar("R")
_log = logging.getLogger("rmq")


class Process(AbstractContextManager[Batch, "bool | None"]):
    """`with queue.process() as batch:`, or `@queue.process()` above `def handle(batch): ...`."""

    def __init__(self, block: Callable[[], AbstractContextManager[Batch]]) -> None:
        self._block = block
        self._entered: list[AbstractContextManager[Batch]] = []

    def __enter__(self) -> Batch:
        entered = self._block()
        batch = entered.__enter__()
        self._entered.append(entered)
        return batch

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._entered.pop().__exit__(kind, error, trace)

    def __call__(self, handler: Callable[Concatenate[Batch, P], R]) -> Callable[P, R | None]:
        """Return a function that claims and then calls the handler; it returns None when there is no work."""

        @functools.wraps(handler)
        def handle(*args: P.args, **kwargs: P.kwargs) -> R | None:
            with self._block() as batch:
                return handler(batch, *args, **kwargs) if batch else None

        return handle


class AsyncProcess(AbstractAsyncContextManager[AsyncBatch, "bool | None"]):
    """The asyncio version of Process."""

    def __init__(self, block: Callable[[], AbstractAsyncContextManager[AsyncBatch]]) -> None:
        self._block = block
        self._entered: list[AbstractAsyncContextManager[AsyncBatch]] = []

    async def __aenter__(self) -> AsyncBatch:
        entered = self._block()
        batch = await entered.__aenter__()
        self._entered.append(entered)
        return batch

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._entered.pop().__aexit__(kind, error, trace)

    def __call__(self, handler: Callable[Concatenate[AsyncBatch, P], Awaitable[R]]) -> Callable[P, Awaitable[R | None]]:
        """Return a coroutine function that claims, then awaits the handler; it returns None when there is no work."""

        @functools.wraps(handler)
        async def handle(*args: P.args, **kwargs: P.kwargs) -> R | None:
            async with self._block() as batch:
                return await handler(batch, *args, **kwargs) if batch else None

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
