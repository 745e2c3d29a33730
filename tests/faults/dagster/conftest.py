"""The servers that a deployment uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Server, start_server
from tests.servers.postgres import Postgres, running_postgres

NUMBERS = "test_dagster_numbers.py"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Measure in full length only: on a machine that does other work as well, the numbers mean little."""
    return True if collection_path.name == NUMBERS and config.getoption("faults") != "full" else None


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
