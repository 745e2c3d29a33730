"""Drivers that attempt each request once, for queues that promise to surface every failure and to hide no retry.

Such a driver opens its own connections, each in one attempt, because the client's retry policy would otherwise retry.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from rmq_core.exchange import Command, Patience
from rmq_core.exchange.aio import AsyncDriver
from rmq_core.exchange.frames import RETRYABLE, Plan
from rmq_core.exchange.pools import ON_POOL
from rmq_core.exchange.public import AsyncPublicDriver, PublicDriver, is_genuine
from rmq_core.exchange.sync import SyncDriver

W = TypeVar("W", Plan, Command)
_COPY = "_rmq_without_retries"


def once_driver(client: Any, prefix: bytes) -> SyncDriver:
    """Return a driver that makes one attempt. A client that is not redis-py's own may still retry by its own policy."""
    return (OnceDriver if is_genuine(client) else OncePublicDriver)(client, prefix, 0)


def async_once_driver(client: Any, prefix: bytes) -> AsyncDriver:
    """The asyncio version of `once_driver`."""
    return (AsyncOnceDriver if is_genuine(client) else AsyncOncePublicDriver)(client, prefix, 0)


def without_retries(pool: Any) -> Any:
    """Return the copy of a pool that opens connections in one attempt; a node of an asyncio cluster is returned as is.

    All queue objects whose clients have the same pool use one copy, an attribute of the pool.
    """
    if not hasattr(pool, "connection_kwargs"):  # a pool of redis-py has it, a NodePool not
        return pool
    copied = vars(pool).get(_COPY)
    if copied is None:
        copied = copy.copy(pool)
        no_retries: dict[str, Any] = {"retry": None, "retry_on_timeout": False, "retry_on_error": []}
        copied.connection_kwargs = {**pool.connection_kwargs, **no_retries}
        vars(copied).pop(ON_POOL, None)
        copied.reset()
        copied = vars(pool).setdefault(_COPY, copied)
    return copied


class OncePublicDriver(PublicDriver):
    """A driver that makes one attempt, through the public methods of any client."""

    def _persist(self, send: Callable[[W], Any], first: W, again: W, patience: Patience) -> Any:
        del again, patience
        try:
            return send(first)
        except RETRYABLE as error:
            self._drop(error)
            raise


class OnceDriver(SyncDriver):
    """A driver that makes one attempt, over connections that it opens itself."""

    _persist = OncePublicDriver._persist

    _plain = SyncDriver._directly

    def _find_pool(self) -> Any:
        return without_retries(super()._find_pool())

    def close(self) -> None:
        """Close the connections that no call uses: the client, which does not know them, never will."""
        super().close()
        if self._held is not None:
            self._held[0].disconnect(inuse_connections=False)


class AsyncOncePublicDriver(AsyncPublicDriver):
    """The asyncio version of OncePublicDriver."""

    async def _persist(self, send: Callable[[W], Awaitable[Any]], first: W, again: W, patience: Patience) -> Any:
        del again, patience
        try:
            return await send(first)
        except RETRYABLE as error:
            await self._drop(error)
            raise


class AsyncOnceDriver(AsyncDriver):
    """The asyncio version of OnceDriver."""

    _persist = AsyncOncePublicDriver._persist

    _plain = AsyncDriver._directly

    async def _find_pool(self) -> Any:
        return without_retries(await super()._find_pool())

    async def close(self) -> None:
        """Close the connections that no call uses: the client, which does not know them, never will."""
        await super().close()
        if self._held is not None and self._held[1].current:
            await self._held[0].disconnect(inuse_connections=False)
