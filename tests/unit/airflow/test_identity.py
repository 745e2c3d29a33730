from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rmq_airflow.identity import TaskIdentity


def identity(**changes: Any) -> TaskIdentity:
    ti = {
        "dag_id": "d",
        "run_id": "manual__2026-01-01T00:00:00+00:00",
        "task_id": "g.t",
        "map_index": -1,
        "try_number": 1,
    }
    return TaskIdentity.of({"ti": SimpleNamespace(**{**ti, "try_number": 1, **changes})})  # type: ignore[typeddict-item]


def test_a_retry_has_the_same_lease_id_and_another_owner() -> None:
    first, second = identity(try_number=1), identity(try_number=2)
    assert first.lease_id == second.lease_id == "d/manual__2026-01-01T00:00:00+00:00/g.t/-1"
    assert first.owner == "airflow:d/manual__2026-01-01T00:00:00+00:00/g.t/-1/1"
    assert second.owner != first.owner


def test_mapped_tasks_have_their_own_leases() -> None:
    assert identity(map_index=0).lease_id != identity(map_index=1).lease_id


def test_a_task_without_map_index_counts_as_unmapped() -> None:
    assert identity(map_index=None).lease_id == identity().lease_id


def test_the_headers_name_the_publishing_task_but_not_the_try() -> None:
    assert identity(try_number=3, map_index=4).headers == {
        "airflow-dag-id": "d",
        "airflow-run-id": "manual__2026-01-01T00:00:00+00:00",
        "airflow-task-id": "g.t",
        "airflow-map-index": "4",
    }
