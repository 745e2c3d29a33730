"""`AsyncStreamQueue`: a stream and its group, with its own methods and those of WorkQueue, on the asyncio drivers."""

from __future__ import annotations

from typing import Any

from rmq_core.aio import AsyncFacade
from rmq_core.kernel.base import Part
from rmq_core.streams.queue import StreamAdmin, StreamMethods
from rmq_core.streams.state import StreamEngine
from rmq_core.twin import Awaited


class AsyncStreamQueue(StreamMethods, AsyncFacade[StreamEngine, Any]):
    """A StreamQueue for asyncio: `redis` is a redis.asyncio client, a RedisSettings or a URL."""

    admin = Part(StreamAdmin[Awaited])
