"""Where a queue can live: a server of the matrix, or fakeredis, which is no server at all.

A place returns plain redis-py clients, as users make them, and is independent of queues.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import fakeredis
import redis
import redis.asyncio

from tests.servers import find_server

FAKE = "fakeredis"


class Place(Protocol):
    """Clients of one database that belongs to one test at a time."""

    fake: bool

    def client(self, **options: Any) -> redis.Redis:
        """Return a plain client."""

    def async_client(self, **options: Any) -> redis.asyncio.Redis:
        """Return a plain asyncio client; call this where its loop runs."""


class Real:
    """A server."""

    fake = False

    def __init__(self, url: str) -> None:
        self.url = url

    def client(self, **options: Any) -> redis.Redis:
        client: redis.Redis = redis.Redis.from_url(self.url, **options)
        return client

    def async_client(self, **options: Any) -> redis.asyncio.Redis:
        client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(self.url, **options)
        return client


class Fake:
    """fakeredis: state in this process, no sockets, no replies to lose."""

    fake = True

    def __init__(self) -> None:
        self._server = fakeredis.FakeServer()

    def client(self, **options: Any) -> redis.Redis:
        return fakeredis.FakeRedis(server=self._server, **options)

    def async_client(self, **options: Any) -> redis.asyncio.Redis:
        return fakeredis.FakeAsyncRedis(server=self._server, **options)


@contextmanager
def find_place(name: str) -> Iterator[Place]:
    """Yield the place of that name for the duration of the block."""
    if name == FAKE:
        yield Fake()
        return
    with find_server(name) as server:
        yield Real(server.url)
