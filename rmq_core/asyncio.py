"""The asyncio twins of `rmq_core`, under the same names."""

from __future__ import annotations

from typing import Any

from rmq_core import *  # noqa: F403  the same values, errors and policies
from rmq_core import __all__ as _shared
from rmq_core.clients import async_client as _client
from rmq_core.keys import QUEUES as _QUEUES
from rmq_core.leased.aio import AsyncLeasedQueue
from rmq_core.leased.hub import WaitHub

LeasedQueue = AsyncLeasedQueue  # type: ignore[misc, assignment]

__all__ = [*_shared, "AsyncLeasedQueue", "WaitHub"]  # noqa: PLE0604  names, all of them


async def queues(redis: Any) -> list[str]:  # type: ignore[no-redef]
    """The names of all queues that were ever published to or claimed from on this server."""
    client, owned = _client(redis)
    try:
        return sorted(name if isinstance(name, str) else name.decode() for name in await client.smembers(_QUEUES))
    finally:
        if owned:
            await client.aclose()
