"""What a queue may be given as `redis`: a client, RedisSettings or a URL."""

from __future__ import annotations

import inspect
from typing import Any

from rmq_core.connection import RedisSettings
from rmq_core.errors import ConfigurationError


def sync_client(redis: Any) -> tuple[Any, bool]:
    """A blocking client, and whether it was made here and must be closed by us."""
    settings = _settings(redis)
    if settings is not None:
        return settings.client(), True
    return _checked(redis, asynchronous=False), False


def async_client(redis: Any) -> tuple[Any, bool]:
    """The asyncio twin of `sync_client`."""
    settings = _settings(redis)
    if settings is not None:
        return settings.async_client(), True
    return _checked(redis, asynchronous=True), False


def _settings(redis: Any) -> RedisSettings | None:
    if isinstance(redis, str):
        return RedisSettings.from_url(redis)
    return redis if isinstance(redis, RedisSettings) else None


def _checked(redis: Any, *, asynchronous: bool) -> Any:
    execute = getattr(redis, "execute_command", None)
    if execute is None or hasattr(redis, "command_stack") or isinstance(redis, type):
        raise ConfigurationError(f"redis must be a client, RedisSettings or a URL, not {type(redis).__name__}")
    if inspect.iscoroutinefunction(execute) != asynchronous:
        wanted = "redis.asyncio client" if asynchronous else "blocking client"
        raise ConfigurationError(f"redis must be a {wanted} here; {type(redis).__module__} belongs to the other façade")
    return redis
