"""Run a DAG of a bundle with `dag.test()`, or let the scheduler begin a run of it, and read its results."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.airflow.home import DAGS

COMPLAINT = re.compile(r'\[(warning|error|critical) *\]|"level": ?"(warning|error|critical)"|^Traceback|^\s+File "')
AIRFLOWS_OWN = re.compile(
    r"AssetModel \S.* not found; cannot create asset event|Emitting event for inactive AssetModel|GitWildMatchPattern"
)
"""What Airflow logs about the first event of an asset that an alias resolves to, and about a library of its own."""


def complaints(log: str) -> list[str]:
    """Return the lines of a log that are warnings, errors or parts of a traceback, apart from Airflow's own."""
    return [line for line in log.splitlines() if COMPLAINT.search(line) and not AIRFLOWS_OWN.search(line)]


def load(dag_id: str, folder: Path = DAGS, bundle: str = "tests") -> Any:
    """Return the DAG as the DAG processor parses it."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(folder, bundle_path=folder, bundle_name=bundle)
    assert bag.import_errors == {}
    return bag.dags[dag_id]


def scheduled(dag_id: str, session: Any) -> Any:
    """Let Airflow's scheduler create a run and schedule its first tasks, and return the run; the caller rolls back."""
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    sync_bag_to_db(BundleDagBag(DAGS, bundle_path=DAGS, bundle_name="tests"), "tests", None)
    dag = SerializedDagModel.get_dag(dag_id, session=session)
    assert dag is not None
    now = {"run_id": f"scheduled_{dag_id}", "run_after": datetime.now(UTC), "logical_date": None}
    kind = {"run_type": DagRunType.MANUAL, "triggered_by": DagRunTriggeredByType.TEST, "state": "running"}
    run = dag.create_dagrun(**now, **kind, session=session)  # type: ignore[arg-type]
    schedulable, _ = run.update_state(session=session, execute_callbacks=False)
    run.schedule_tis(schedulable, session=session)
    return run


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
