from __future__ import annotations

import pytest

from rmq_airflow.identity import TaskIdentity
from rmq_airflow.plugin.holders import holder_of, path_of

TASKS = [
    TaskIdentity("etl", "manual__2026-01-01T00:00:00+00:00", "load", -1, 1),
    TaskIdentity("etl", "scheduled__2026", "group.load", 7, 3),
    TaskIdentity("etl", "a/run/id/with/slashes", "load", 0, 2),
]


@pytest.mark.parametrize(
    "owner", ["", "worker-7", "airflow:", "airflow:dag/run/task/0", "airflow:dag/run/task/x/1", "dagster:a/b/c/0/1"]
)
def test_a_foreign_owner_string_names_no_task(owner: str) -> None:
    assert holder_of(owner) is None


def test_a_holder_links_to_the_page_of_its_try() -> None:
    holder = holder_of(TASKS[0].owner)
    assert holder is not None
    assert (holder["names"], holder["attempt"]) == (["etl", "load"], "try 1")
    assert holder["href"] == "/dags/etl/runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00/tasks/load?try_number=1"


def test_names_are_escaped_in_the_path() -> None:
    path = path_of(TaskIdentity("a?b", "../../x", "t#1", -1, 1))
    assert path == "/dags/a%3Fb/runs/..%2F..%2Fx/tasks/t%231?try_number=1"
