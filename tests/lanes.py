"""How tests are dealt out to the processes of `pytest -n`: a folder at a time.

What a folder shares (servers, a scheduler, a JVM) is then started in one process only. The folders that take longest
begin first.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

LONGEST_FIRST = (
    "redis",
    "airflow",
    "faults",
    "spark",
    "dagster",
    "faults/airflow",
    "faults/dagster",
    "unit",
    "architecture",
)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Deal out folders; called for `-n` only."""
    config.option.loadscopereorder = False  # the order of collection is ours, see below
    return Folders(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the folders in order, and leave the order inside of each."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: LONGEST_FIRST.index(folder(item.nodeid)))


def folder(nodeid: str) -> str:
    """The folder below `tests`; those below `faults` start a scheduler each and stand for themselves."""
    _, top, *below = nodeid.split("::", maxsplit=1)[0].split("/")
    return "/".join((top, *below[:-1])) if top == "faults" else top


class Folders(LoadScopeScheduling):
    """A unit of work is a folder."""

    def _split_scope(self, nodeid: str) -> str:
        return folder(nodeid)
