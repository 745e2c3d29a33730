"""The asyncio `RedisMessageQueue`, where redis-message-queue has it."""

from __future__ import annotations

from rmq_core.compat.aio import RedisMessageQueue

__all__ = ["RedisMessageQueue"]
