"""One test body over {sync, async} x {servers}: request the fixture `world` and write plain synchronous code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import redis
import redis.asyncio

from tests.redis.leases import PATIENCE_S
from tests.redis.tenants import PASSWORD, USER, grant
from tests.redis.worlds import AsyncWorld, SyncWorld, World
from tests.servers import External, Server, find_server


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Server | External]:
    """One server of the matrix, running for the whole session."""
    with find_server(request.param) as found:
        yield found


@pytest.fixture(scope="session")
def server_url(server: Server | External) -> str:
    """The URL of that server."""
    return server.url


@pytest.fixture
def redis_client(server_url: str) -> Iterator[redis.Redis]:
    """A plain client on an empty database."""
    with redis.Redis.from_url(server_url, socket_timeout=PATIENCE_S) as client:
        client.flushdb()
        yield client


@pytest.fixture
async def async_redis_client(redis_client: redis.Redis, server_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain asyncio client on an empty database."""
    del redis_client  # requested because it empties the database
    async with redis.asyncio.Redis.from_url(server_url) as client:
        yield client


@pytest.fixture(params=[SyncWorld, AsyncWorld], ids=["sync", "async"])
def world(request: pytest.FixtureRequest, redis_client: redis.Redis, server_url: str) -> Iterator[World]:
    """Queues of one concurrency model on an empty database; see `tests.redis.worlds`."""
    made: World = request.param(server_url, redis_client)
    with made:
        yield made


@pytest.fixture
def tenant(redis_client: redis.Redis, server_url: str) -> Iterator[str]:
    """The URL with which the user connects; `grant` gives permissions."""
    grant(redis_client, "leased")
    yield server_url.replace("redis://", f"redis://{USER}:{PASSWORD}@")
    redis_client.acl_deluser(USER)
