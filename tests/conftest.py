"""Options of the whole suite, and the fixtures of tests on servers.

One test body runs over {sync, async} x {servers}: it requests the fixture `world` and is plain synchronous code.
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
import redis
import redis.asyncio
from hypothesis import settings

from tests.core.leases import PATIENCE_S
from tests.core.tenants import PASSWORD, USER, grant
from tests.core.worlds import AsyncWorld, SyncWorld, World
from tests.servers import External, Server, find_server

STARTS_SPARK = ("airflow/", "architecture/test_documentation", "dagster/", "faults/", "spark/")
SPARKS_DEADLINE = "Python worker failed to connect back"
"""Spark gives a Python process of a data source ten seconds to start, and no setting changes that."""
settings.register_profile("default", deadline=None)  # a first example imports pandas; a busy machine takes seconds
settings.load_profile("default")
pytest_plugins = [
    "tests.covering",
    "tests.faults.report",
    "tests.faults.tally",
    "tests.lanes",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register `--faults`, which the fault tests read as `config.getoption("faults")`."""
    parser.addoption("--faults", choices=("short", "full"), default="short", help="how long fault tests run")


def pytest_configure() -> None:
    """Restore the usual signals in processes of the tests, also under nohup or in a shell's background.

    Set no event loop either: pytest-asyncio would otherwise create one that is dropped without being closed.
    """
    asyncio.set_event_loop(None)
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector away from the collected tests: they live to the end, and a scan takes seconds."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests again that fail with Spark's deadline, and with nothing else; pytest counts them as "rerun".

    Only tests that may start Spark are marked: pytest-rerunfailures adds 40 ms to each test it watches.
    """
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(STARTS_SPARK) and "/test_unit_" not in item.nodeid:
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=[SPARKS_DEADLINE]))


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Restore Python's own handlers: a library that earlier tests used, such as PySpark, may have replaced them."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def full_faults(pytestconfig: pytest.Config) -> bool:
    """True under `--faults=full`."""
    return bool(pytestconfig.getoption("faults") == "full")


@pytest.fixture
def redis_url(any_server_url: str) -> str:
    """The URL of an empty database, for tests that do not use the server matrix."""
    with redis.Redis.from_url(any_server_url) as client:
        client.flushdb()
    return any_server_url


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
    """Queues of one concurrency model on an empty database; see `tests.core.worlds`."""
    made: World = request.param(server_url, redis_client)
    with made:
        yield made


@pytest.fixture
def tenant(redis_client: redis.Redis, server_url: str) -> Iterator[str]:
    """The URL with which the user connects; `grant` gives permissions."""
    grant(redis_client, "leased")
    yield server_url.replace("redis://", f"redis://{USER}:{PASSWORD}@")
    redis_client.acl_deluser(USER)
