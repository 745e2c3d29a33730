"""Fixtures of the fault tests: their own server, and a proxy whose connections can be cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.core.worlds import AsyncWorld, SyncWorld, World
from tests.covering import server_names
from tests.faults.proxy import Proxy
from tests.servers import NAMES, Server, start_server

ONLY_IN_FULL = {"test_spark_executors.py", "test_spark_speculation.py", "test_installed_wheel.py"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The short form leaves out what needs a minute, and which something quicker stands for."""
    return True if collection_path.name in ONLY_IN_FULL and config.getoption("faults") != "full" else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every server of ours in full length; one of them in the short form, and for Spark, whose kills take minutes."""
    if "own_server" in metafunc.fixturenames:
        full = metafunc.config.getoption("faults") == "full" and "test_spark" not in metafunc.module.__name__
        names = [name for name in server_names(metafunc.config) if name in NAMES] or list(NAMES)
        chosen = names if full or "7.0" not in names else ["7.0"]
        metafunc.parametrize("own_server", chosen, indirect=True, scope="module")


@pytest.fixture(scope="module")
def own_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that faults may hit; it is never one of RMQ_TEST_SERVERS."""
    server = start_server(request.param)
    yield server
    server.stop()


@pytest.fixture
def client(own_server: Server) -> Iterator[redis.Redis]:
    """A plain client on that server, whose database is emptied."""
    with own_server.client() as plain:
        plain.flushall()
        yield plain


@pytest.fixture
def wire(own_server: Server) -> Iterator[Proxy]:
    """A proxy to that server whose connections can be cut."""
    with Proxy(own_server.port) as proxy:
        yield proxy


@pytest.fixture(params=[SyncWorld, AsyncWorld], ids=["sync", "async"])
def world(request: pytest.FixtureRequest, own_server: Server, client: redis.Redis) -> Iterator[World]:
    """Queues of one flavour; see `tests.core.worlds`."""
    made: World = request.param(own_server.url, client)
    with made:
        yield made
