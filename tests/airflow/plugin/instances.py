"""Task instances that a test writes to the metadata database: in any state, at once, without a scheduler."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import delete, insert, select, update

from rmq_airflow.identity import TaskIdentity


class Instances:
    """`put` one for an owner, change its `state`, `delete` its run; `close` removes them all."""

    def __init__(self) -> None:
        self._dags: set[str] = set()

    def put(self, owner: str, state: str | None, *, run_state: str = "running", returned: Any = None) -> str:
        """Create a run with the task that an owner names; return the owner."""
        task = TaskIdentity.read(owner)
        assert task is not None
        self._dags.add(task.dag_id)
        names = {"dag_id": task.dag_id, "run_id": task.run_id}
        place = {**names, "task_id": task.task_id, "map_index": task.map_index}
        with create_session() as session:
            run = select(DagRun.id).filter_by(**names)
            if session.scalar(run) is None:
                session.execute(insert(DagRun.__table__).values(**_run(run_state), **names))
            values = {**place, "state": state, "try_number": task.try_number, "pool": "default_pool"}
            session.execute(insert(TaskInstance.__table__).values(id=uuid4(), **values))
            if returned is not None:
                value = {"key": "return_value", "value": returned, "dag_run_id": session.scalar(run)}
                session.execute(insert(XComModel.__table__).values(**place, **value))
        return owner

    def set(self, owner: str, state: str | None) -> None:
        """Set the state of the task."""
        task = TaskIdentity.read(owner)
        assert task is not None
        names = {"dag_id": task.dag_id, "run_id": task.run_id, "task_id": task.task_id, "map_index": task.map_index}
        with create_session() as session:
            session.execute(update(TaskInstance).filter_by(**names).values(state=state))

    def end_run(self, owner: str, state: str) -> None:
        """Set the final state of the run, whatever the state of its tasks."""
        with create_session() as session:
            session.execute(update(DagRun).filter_by(**_run_of(owner)).values(state=state))

    def log(self, owner: str, *events: str) -> None:
        """Write what Airflow itself logs about a try, such as that it started: `running`."""
        task = TaskIdentity.read(owner)
        assert task is not None
        names = {"dag_id": task.dag_id, "run_id": task.run_id, "task_id": task.task_id, "map_index": task.map_index}
        with create_session() as session:
            session.add_all(Log(event, **names, try_number=task.try_number) for event in events)

    def delete(self, owner: str) -> None:
        """Delete the run and everything that belongs to it except its entries in the audit log."""
        with create_session() as session:
            for table in (XComModel, TaskInstance, DagRun):
                session.execute(delete(table).filter_by(**_run_of(owner)))

    def close(self) -> None:
        with create_session() as session:
            for table in (XComModel, TaskInstance, DagRun, Log):
                session.execute(delete(table).where(table.dag_id.in_(self._dags)))


def _run(state: str) -> dict[str, Any]:
    return {"run_type": "manual", "state": state, "run_after": datetime.now(UTC)}


def _run_of(owner: str) -> dict[str, str]:
    task = TaskIdentity.read(owner)
    assert task is not None
    return {"dag_id": task.dag_id, "run_id": task.run_id}
