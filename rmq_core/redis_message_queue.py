"""`RedisMessageQueue`, where redis-message-queue has it."""

from __future__ import annotations

from rmq_core.compat.sync import RedisMessageQueue

__all__ = ["RedisMessageQueue"]
