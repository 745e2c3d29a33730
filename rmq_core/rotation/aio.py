"""`AsyncRotationQueue`: ids that rotate in a list, run by the asyncio driver."""

from __future__ import annotations

from typing import Any

from rmq_core.aio import AsyncFacade
from rmq_core.kernel.base import Part
from rmq_core.rotation.queue import RotationAdmin, RotationMethods
from rmq_core.rotation.state import RotationEngine
from rmq_core.twin import Awaited


class AsyncRotationQueue(RotationMethods, AsyncFacade[RotationEngine, Any]):
    """A RotationQueue for asyncio: `redis` is a redis.asyncio client, a RedisSettings or a URL."""

    admin = Part(RotationAdmin[Awaited])
