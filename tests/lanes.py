"""How tests are dealt out to the processes of `pytest -n`: what shares something slow to start stays together.

Tests of Redis share a server, those of Airflow its metadata database, those of Spark a JVM, unit tests their imports.
Elsewhere a file is a unit of work, also where each test of Spark starts a JVM of its own. What takes longest begins
first, lest one process be busy when all others are done.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.servers import CLUSTERS, NAMES

TOGETHER = ("airflow/browser", "airflow", "spark", "faults/airflow", "unit")
APART = "spark/processes/"
LONGEST_FIRST = ("spark", "airflow", "faults/airflow", "dagster", "faults", "redis")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Deal out units; called for `-n` only."""
    config.option.loadscopereorder = False  # the order of collection is ours, see below
    return Units(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the units in order, and leave the order inside of each."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _rank(unit(item.nodeid)))


def unit(nodeid: str) -> str:
    """What a test stays together with: `spark`, `redis/7.0`, `dagster/test_walks.py`."""
    path, _, test = nodeid.removeprefix("tests/").partition("::")
    if path.startswith("redis/") and (place := _place(test)):
        return f"redis/{place}"
    if path.startswith(APART):
        return path
    return next((folder for folder in TOGETHER if path.startswith(f"{folder}/")), path)


def _place(test: str) -> str | None:
    """The server that a test shares with others of the matrix."""
    parameters = test.partition("[")[2]
    return next((name for name in (*CLUSTERS, *NAMES) if name in parameters), None)


def _rank(name: str) -> tuple[int, str]:
    places = (at for at, start in enumerate(LONGEST_FIRST) if f"{name}/".startswith(f"{start}/"))
    return next(places, len(LONGEST_FIRST)), name


class Units(LoadScopeScheduling):
    """A unit of work is what shares something slow to start."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
