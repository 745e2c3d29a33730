"""Handles the `redis` argument of a queue: a client, RedisSettings or a URL."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Any

from rmq_core.connection.settings import RedisSettings
from rmq_core.envelope.payloads import one_line
from rmq_core.errors import ConfigurationError
from rmq_core.twin import awaited


def sync_client(redis: Any) -> tuple[Any, bool]:
    """Return a blocking client, and whether this call created it, in which case the queue must close it."""
    settings = _settings(redis)
    if settings is not None:
        return settings.client(), True
    return _checked(redis, asynchronous=False), False


def async_client(redis: Any) -> tuple[Any, bool]:
    """The same as `sync_client`, for an asyncio client."""
    settings = _settings(redis)
    if settings is not None:
        return settings.async_client(), True
    return _checked(redis, asynchronous=True), False


@asynccontextmanager
async def opened(redis: Any, *, asynchronous: bool) -> AsyncIterator[Any]:
    """Yield the client for a `redis` argument; close it at the end if this call created it."""
    client, owned = (async_client if asynchronous else sync_client)(redis)
    try:
        yield client
    finally:
        if owned:
            await closed(client)


async def closed(client: Any) -> None:
    """Close a client, blocking or for asyncio."""
    close = getattr(client, "aclose", None) or client.close
    await awaited(close())


def _settings(redis: Any) -> RedisSettings | None:
    if isinstance(redis, str):
        return RedisSettings.from_url(redis)
    return redis if isinstance(redis, RedisSettings) else None


def _checked(redis: Any, *, asynchronous: bool) -> Any:
    execute = getattr(redis, "execute_command", None)
    if execute is None or _is_pipeline(redis) or isinstance(redis, type):
        raise ConfigurationError(f"redis must be a client, RedisSettings or a URL, not {type(redis).__name__}")
    if inspect.iscoroutinefunction(execute) != asynchronous:
        wanted = "redis.asyncio client" if asynchronous else "blocking client"
        raise ConfigurationError(f"redis must be a {wanted} here, not one of {type(redis).__module__}")
    return redis


def check_gateway_client(client: Any, *, asynchronous: bool) -> None:
    """Raise TypeError, which names what to pass instead, for a value that cannot be a gateway's client."""
    kind = type(client).__name__
    execute = getattr(client, "execute_command", None)
    if hasattr(client, "master_for"):  # a redis-py Sentinel, or what wraps one
        raise TypeError(f"'redis_client' is a {kind} manager; pass the client that its master_for(name) returns")
    if execute is None or isinstance(client, type):
        raise TypeError(f"'redis_client' must be a redis-py client, not {kind}")
    if _is_pipeline(client):
        raise TypeError(f"'redis_client' is a {kind}, which only collects commands; pass the client it was made from")
    if inspect.iscoroutinefunction(execute) != asynchronous:
        wanted, other = ("an asyncio", "rmq_core") if asynchronous else ("a blocking", "rmq_core.asyncio")
        raise TypeError(f"'redis_client' must be {wanted} client here; pass this {kind} to {other}.RedisMessageQueue")
    if not asynchronous and getattr(client, "connection", None) is not None:
        raise TypeError(
            "'redis_client' is a single-connection client, which threads and forks cannot share; use a pool"
        )


def server_of(client: Any) -> Hashable:
    """Return a value that all clients of one server share: its address, or the id of a client with unknown address."""
    about = getattr(getattr(client, "connection_pool", None), "connection_kwargs", None)
    where = tuple(map(about.get, ("path", "host", "port"))) if isinstance(about, dict) else ()
    return where if any(where) else id(client)


def name_of(client: Any) -> str:
    """Return the `client_name` of a client's connections; empty without one, or for a client of another kind."""
    found = getattr(getattr(client, "connection_pool", None), "connection_kwargs", None)
    if found is None and is_cluster(client):
        found = client.get_connection_kwargs() if hasattr(client, "get_connection_kwargs") else None
    name = found.get("client_name") if isinstance(found, dict) else None
    return one_line(name) if isinstance(name, str) else ""


def is_cluster(client: Any) -> bool:
    """Return whether the client is a cluster client, for which all keys of one call must be in one slot."""
    return hasattr(client, "nodes_manager")  # both clients of redis-py have it, and so may a client that wraps one


def decodes(client: Any) -> bool:
    """Return whether the client decodes replies to str."""
    try:
        return bool(client.get_encoder().decode_responses)
    except AttributeError:  # a stub has no encoder
        return False


def _is_pipeline(client: Any) -> bool:
    return hasattr(client, "command_stack")  # pipelines of redis-py and of clients that wrap it share no class
