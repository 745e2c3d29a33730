"""`AsyncReliableQueue`, run by the asyncio driver."""

from __future__ import annotations

from typing import Any

from rmq_core.aio import AsyncFacade
from rmq_core.kernel.base import Part
from rmq_core.reliable.queue import ReliableAdmin, ReliableMethods
from rmq_core.reliable.state import ReliableEngine
from rmq_core.twin import Awaited


class AsyncReliableQueue(ReliableMethods, AsyncFacade[ReliableEngine, Any]):
    """A ReliableQueue for asyncio: `redis` is a redis.asyncio client, a RedisSettings or a URL."""

    admin = Part(ReliableAdmin[Awaited])
