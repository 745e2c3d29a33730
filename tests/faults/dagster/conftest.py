"""The servers that a deployment uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Server, start_server
from tests.servers.postgres import Postgres, running_postgres


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    """A Redis whose acknowledged writes are on disk."""
    server = start_server("7.0", "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server
