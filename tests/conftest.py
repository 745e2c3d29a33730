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
from tests.servers import CLUSTERS, EMBEDDED, NAMES, External, Server, find_server, parse_external

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
    """Register `--faults`, which the fault tests read as `config.getoption("faults")` and `--servers`."""
    parser.addoption("--faults", choices=("short", "full"), default="short", help="how long fault tests run")
    parser.addoption("--servers", default="", help="comma-separated names of the servers to test, default all")


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


def pytest_report_header(config: pytest.Config) -> str:
    """Report which servers and clusters this run covers."""
    return f"servers: {', '.join(place_names(config))}; faults: {config.getoption('faults')}"


def place_names(config: pytest.Config) -> list[str]:
    """Return the servers and clusters of this run: those of RMQ_TEST_SERVERS or all of ours, limited by `--servers`."""
    known = list(parse_external() or (*NAMES, *CLUSTERS))
    chosen = [name for name in config.getoption("servers").split(",") if name] or known
    if unknown := set(chosen) - {*known, EMBEDDED}:
        message = f"--servers: no {', '.join(sorted(unknown))} among {', '.join(known)}"
        raise pytest.UsageError(message)
    return chosen


def server_names(config: pytest.Config) -> list[str]:
    """Return the standalone servers of this run."""
    external = parse_external()
    alone = {name for name, url in external.items() if url.startswith(("redis:", "rediss:", "unix:"))}
    return [name for name in place_names(config) if name in (alone or {*NAMES, EMBEDDED})]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each server when it requests one, directly or through another fixture."""
    if "server" in metafunc.fixturenames:
        metafunc.parametrize("server", server_names(metafunc.config), indirect=True, scope="session")


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


@pytest.fixture(scope="session")
def any_server_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """One server for tests whose subject is not Redis: 7.0 unless `--servers` leaves it out."""
    names = server_names(pytestconfig)
    with find_server("7.0" if "7.0" in names or not names else names[0]) as server:
        yield server.url


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
