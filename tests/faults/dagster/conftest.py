"""The servers that a deployment stands on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Server, start_server
from tests.servers.postgres import Postgres, running_postgres

NUMBERS = "test_dagster_numbers.py"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Numbers are measured in full length only: on a machine that does other things as well they say little."""
    return True if collection_path.name == NUMBERS and config.getoption("faults") != "full" else None


@pytest.fixture(scope="module")
def redis() -> Iterator[Server]:
    """One that has on disk what it acknowledges."""
    server = start_server("7.0", "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server
