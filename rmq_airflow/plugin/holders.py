"""Which task holds a lease, and where Airflow shows it."""

from __future__ import annotations

from urllib.parse import quote

from rmq_airflow.identity import TaskIdentity
from rmq_airflow.plugin import base_path
from rmq_core.console import Holder


def holder_of(owner: str) -> Holder | None:
    """Return the try of a task that an owner names, for the page; None when the owner is not a task."""
    task = TaskIdentity.read(owner)
    if task is None:
        return None
    index = f" [{task.map_index}]" if task.map_index >= 0 else ""
    return {
        "names": [task.dag_id, f"{task.task_id}{index}"],
        "run": task.run_id,
        "attempt": f"try {task.try_number}",
        "href": base_path() + path_of(task),
    }


def path_of(task: TaskIdentity) -> str:
    """Return the path of a try's page below Airflow's base path."""
    mapped = f"/mapped/{task.map_index}" if task.map_index >= 0 else ""
    names = [quote(name, safe="") for name in (task.dag_id, task.run_id, task.task_id)]
    return f"/dags/{names[0]}/runs/{names[1]}/tasks/{names[2]}{mapped}?try_number={task.try_number}"
