"""Run a DAG of a bundle with `dag.test()` and read its results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.airflow.home import DAGS


def load(dag_id: str, folder: Path = DAGS, bundle: str = "tests") -> Any:
    """Return the DAG as the DAG processor parses it."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(folder, bundle_path=folder, bundle_name=bundle)
    assert bag.import_errors == {}
    return bag.dags[dag_id]


def states(run: Any) -> dict[str, str]:
    """Return the state of each task instance of a run."""
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def xcom(run: Any, task_id: str) -> Any:
    """Return what a task returned."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = XComModel.get_many(run_id=run.run_id, dag_ids=run.dag_id, task_ids=task_id, key="return_value")
        (row,) = session.execute(query.with_only_columns(XComModel)).scalars().all()
        return XComModel.deserialize_value(row)
