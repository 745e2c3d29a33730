"""Exports `RedisMessageQueue` from a module of the same name as in the package redis-message-queue."""

from __future__ import annotations

from rmq_core.compat.sync import RedisMessageQueue

__all__ = ["RedisMessageQueue"]
