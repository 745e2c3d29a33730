"""`AsyncStreamQueue`: a stream and its group, with its own methods and those of WorkQueue, on the asyncio drivers."""

from __future__ import annotations

from rmq_core.aio import AsyncFacade
from rmq_core.kernel.base import Part
from rmq_core.streams.queue import StreamAdmin, StreamMethods
from rmq_core.streams.state import StreamEngine
from rmq_core.twin import Awaited


class AsyncStreamQueue(StreamMethods, AsyncFacade[StreamEngine]):
    """A Redis stream, read by one consumer of a group; the asyncio version of StreamQueue.

    Takes `(redis, config)` or `(redis, name, config)`; `redis` is a redis.asyncio client, a RedisSettings or a URL.
    enqueue, read, ack of a QueueMessage, claim_stale and backlog_stats make one attempt and raise QueueError. The
    methods of WorkQueue resend a request that got no reply. `on_event` gets a QueueEvent after each step.
    """

    admin = Part(StreamAdmin[Awaited])
