"""How tests are distributed to the processes of `pytest -n`: tests that share something slow to start stay together.

Tests of Redis share a server, those of the monitoring a Prometheus, those of Airflow its metadata database, those of
Spark a JVM, unit tests of a package its imports. Elsewhere a file is a unit of work, also where each test of Spark
starts a JVM of its own.

Units that compute (they start JVMs, browsers, Airflow) and units that mostly wait (for Redis, for a lease to expire)
take turns, so that the processor has work all the time; of either kind, what takes longest begins first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.servers import CLUSTERS, NAMES

TOGETHER = ("airflow/browser", "airflow", "monitoring", "spark", "faults/airflow")
APART = "spark/processes/"
COMPUTING = (
    *("spark", "airflow", "faults/airflow", "faults/test_spark"),
    *("architecture/test_documentation", "console/serve/test_page", "console/browser", "dagster", "unit"),
)
WAITING = ("redis", "core", "cli", "faults")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Distribute units to processes; called for `-n` only."""
    config.option.loadscopereorder = False  # the order of collection is ours, see below
    return Units(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the units in order, and keep the order inside of each."""
    if hasattr(config, "workerinput"):
        turns = {name: at for at, name in enumerate(_in_turns({unit(item.nodeid) for item in items}))}
        items.sort(key=lambda item: turns[unit(item.nodeid)])


def unit(nodeid: str) -> str:
    """Return the unit of a test: `spark`, `redis/7.0`, `dagster/test_walks.py`."""
    path, _, test = nodeid.removeprefix("tests/").partition("::")
    if path.rpartition("/")[2].startswith("test_unit_"):
        return f"unit/{path.partition('/')[0]}"
    if path.startswith(("core/", "cli/")) and (place := _place(test)):
        return f"redis/{place}"
    if path.startswith(APART):
        return path
    return next((folder for folder in TOGETHER if path.startswith(f"{folder}/")), path)


def _place(test: str) -> str | None:
    """Return the server that a test shares with others of the matrix."""
    parameters = test.partition("[")[2]
    return next((name for name in (*CLUSTERS, *NAMES) if name in parameters), None)


def _in_turns(names: set[str]) -> Iterator[str]:
    computing = {name for name in names if name.startswith(COMPUTING)}
    orders = [
        sorted(kind, key=lambda name: (_rank(name, starts), name))
        for kind, starts in ((computing, COMPUTING), (names - computing, WAITING))
    ]
    return (name for pair in zip_longest(*orders) for name in pair if name)


def _rank(name: str, starts: tuple[str, ...]) -> int:
    return next((at for at, start in enumerate(starts) if name.startswith(start)), len(starts))


class Units(LoadScopeScheduling):
    """A unit of work is what shares something slow to start."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)
