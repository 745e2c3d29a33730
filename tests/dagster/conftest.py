from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from rmq_core import LeasedQueue, embedded
from rmq_dagster import RedisQueueResource, resources
from tests.dagster.pipeline import CONFIG

_names = itertools.count(1)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis of the tests' own."""
    directory = tmp_path_factory.mktemp("redis")
    yield f"embedded://{directory}"
    embedded.stop(directory)


@pytest.fixture
def redis_queue(redis_url: str) -> Iterator[RedisQueueResource]:
    resource = RedisQueueResource(url=redis_url)
    yield resource
    resource.close()


@pytest.fixture
def queue(redis_url: str) -> Iterator[LeasedQueue]:
    """An empty queue with a name of its own."""
    with LeasedQueue(redis_url, f"q{next(_names)}", CONFIG) as made:
        yield made


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made


@pytest.fixture
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ticks that cannot reach Redis give up at once, where it is not their patience that is tested."""
    monkeypatch.setattr(resources, "TICK_RETRY_BUDGET_S", 0.1)


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    """The file in which drivers note what they saw."""
    return tmp_path / "seen.jsonl"
