"""The function that reports ended holders to tools such as `rmq doctor`."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from rmq_airflow import holders
from rmq_airflow.identity import TaskIdentity

ROOT = Path(__file__).parents[3]


def owner(task_id: str) -> str:
    return TaskIdentity("etl", "run", task_id, -1, 1).owner


def test_the_function_is_registered_as_an_entry_point() -> None:
    (point,) = entry_points(group="rmq.holders", name="airflow")
    assert point.load() is holders.ended


def test_it_returns_the_owners_that_have_ended_with_the_reason(instances: Any) -> None:
    failed, running, kept = (instances.put(owner(state), state) for state in ("failed", "running", "up_for_retry"))
    waits = instances.put(owner("wait"), "success", returned={"owner": owner("wait")})
    gone, elsewhere = (TaskIdentity("etl", run, "load", 3, 1).owner for run in ("deleted", "elsewhere"))
    instances.put(gone, "up_for_retry")
    instances.log(gone, "running")
    instances.delete(gone)
    assert holders.ended([failed, running, kept, waits, gone, elsewhere, "worker-7", "dagster:run/step"]) == {
        failed: ("try 1 of its task instance failed", True),
        gone: ("its task instance no longer exists: its DAG run or its DAG was probably deleted", False),
    }


def test_airflow_is_not_imported_when_no_owner_is_a_task() -> None:
    code = """
import sys
from rmq_airflow.holders import ended
print("result:", ended(["worker-7", "dagster:run/step"]), "airflow" in sys.modules, "sqlalchemy" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert result.stdout == "result: {} False False\n"


@pytest.mark.parametrize(
    "database",
    [
        "sqlite:////{home}/empty.db",
        pytest.param(
            "sqlite:////{home}/none/at/all.db",
            marks=pytest.mark.nightly(
                "airflow/plugin/test_ended.py::test_without_a_database_or_its_tables_no_owner_is_reported"
            ),
        ),
    ],
)
def test_without_a_database_or_its_tables_no_owner_is_reported(tmp_path: Path, database: str) -> None:
    code = f"from rmq_airflow.holders import ended; print('result:', ended([{owner('load')!r}]))"
    place = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.format(home=tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT, env=os.environ | place
    )
    assert "result: {}" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("suffix", ["", "@abc", "@64a0.2.198f"])
def test_a_suffix_of_the_try_number_is_ignored(suffix: str) -> None:
    task = TaskIdentity("etl", "a/b", "load", 4, 12)
    found = TaskIdentity.read(f"airflow:etl/a/b/load/4/12{suffix}")
    assert found is not None
    assert (found.lease_id, found.try_number) == (task.lease_id, 12)
