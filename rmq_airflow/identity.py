"""Who a task is, in the words of the queue.

The lease id names the work (no try number: a retry or a clear takes over its own messages), the owner names the try
(so that something late from try 1 cannot settle what try 2 holds).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """One try of one task instance."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int

    @classmethod
    def of(cls, context: Context) -> TaskIdentity:
        """The identity of the task that runs under `context`."""
        ti = context["ti"]
        map_index = -1 if ti.map_index is None else ti.map_index
        return cls(ti.dag_id, ti.run_id, ti.task_id, map_index, ti.try_number)

    @property
    def lease_id(self) -> str:
        """The same for every try: `dag/run/task/map_index`."""
        return f"{self.dag_id}/{self.run_id}/{self.task_id}/{self.map_index}"

    @property
    def owner(self) -> str:
        """Different for every try: `airflow:dag/run/task/map_index/try`."""
        return f"airflow:{self.lease_id}/{self.try_number}"

    def follows(self, owner: str) -> bool:
        """Whether `owner` names this task in this try or an earlier one: whose lease it may take over."""
        task, _, number = owner.rpartition("/")
        return task == f"airflow:{self.lease_id}" and number.isdecimal() and int(number) <= self.try_number

    @property
    def headers(self) -> dict[str, str]:
        """What a message says about the task that published it."""
        return {
            "airflow-dag-id": self.dag_id,
            "airflow-run-id": self.run_id,
            "airflow-task-id": self.task_id,
            "airflow-map-index": str(self.map_index),
        }
