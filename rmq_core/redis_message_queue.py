"""`RedisMessageQueue`, where redis-message-queue has it."""

from __future__ import annotations

from rmq_core.message_queue.sync import RedisMessageQueue

__all__ = ["RedisMessageQueue"]
