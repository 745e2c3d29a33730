"""Which task holds a lease, and where Airflow shows it."""

from __future__ import annotations

from typing import TypedDict
from urllib.parse import quote

from rmq_airflow.identity import TaskIdentity


class Holder(TypedDict):
    """A try of a task instance, and the path of its page below Airflow's base path."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    path: str


def holder_of(owner: str) -> Holder | None:
    """Return the task that an owner names, for the page; None when the owner is not a task."""
    task = TaskIdentity.read(owner)
    if task is None:
        return None
    return {
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "map_index": task.map_index,
        "try_number": task.try_number,
        "path": path_of(task),
    }


def path_of(task: TaskIdentity) -> str:
    """Return the path of a try's page in Airflow's UI."""
    mapped = f"/mapped/{task.map_index}" if task.map_index >= 0 else ""
    names = [quote(name, safe="") for name in (task.dag_id, task.run_id, task.task_id)]
    return f"/dags/{names[0]}/runs/{names[1]}/tasks/{names[2]}{mapped}?try_number={task.try_number}"
