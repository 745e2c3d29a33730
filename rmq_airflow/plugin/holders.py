"""Which task holds a lease, whether it has ended and why, by Airflow's database; and where Airflow shows it.

Law: a holder has ended if Airflow will not rerun its task instance on its own. A sensor that hands over its lease
succeeds before the adopting task starts, so it counts as ended only when its DAG run has ended. A missing task instance
belongs to this Airflow only if its audit log has it: other Airflows may share this Redis.

A task that failed by itself (killed, out of memory, lost) is a failed delivery of its messages; one that somebody
marked failed is not. The state is the same. But Airflow's own code, and no user, writes to the audit log that a try
started and how it ended. So a failed try of which only the start is logged was ended by somebody, or by a rule such as
`fail_fast`. If not even the start is logged, nothing is known, and the try counts as failed.

From Airflow 3.4 on, the iterations of a task loop have task instances of the same dag, run, task and map index. Only
the UUID, which a try keeps and its retry does not, and the region of the task instance tell them apart.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import and_, select, tuple_

from rmq_airflow.identity import TaskIdentity, microseconds
from rmq_airflow.paths import base_path
from rmq_console import Holder

STARTED = "running"
OWN_ENDS = {"failed": "", "heartbeat timeout": ": Airflow received no heartbeat from it", "state mismatch": ""}
"""The events that Airflow logs when a try ends by itself, and what each adds to the reason."""
FAILED = "failed"
ENDED = {"success", FAILED, "skipped", "upstream_failed", "removed"}
RUN_ENDED = {"success", "failed"}
GONE = "its task instance no longer exists: its DAG run or its DAG was probably deleted"
CHUNK = 500
IN_REGIONS = hasattr(TaskInstance, "region_id")  # from Airflow 3.4 on
Key: TypeAlias = tuple[str, str, str, int]


class Standing(NamedTuple):
    """known: this Airflow has or had the task instance. reason: why the holder ended; None if it has not.

    failed: it ended by itself, which is a failed delivery of its messages; otherwise somebody ended it.
    """

    known: bool
    reason: str | None
    failed: bool = False


REPLACED = Standing(True, "its DAG run was deleted and recreated under the same run_id")


class Row(NamedTuple):
    """The task instance columns used here. loop_index: the iteration of a task loop, None outside of one."""

    state: str | None
    run_state: str | None
    run_after: datetime
    try_number: int
    try_id: int
    loop_index: int | None = None


def standings(owners: Collection[str]) -> dict[str, Standing]:
    """Return the status of each owner that names a task instance. Blocks; SQLAlchemy errors propagate."""
    tasks = dict(_tasks(owners))
    keys = {owner: (task.dag_id, task.run_id, task.task_id, task.map_index) for owner, task in tasks.items()}
    if not keys:
        return {}
    with create_session(scoped=False) as session:
        found = _rows(session, set(keys.values()))
        rows = {owner: _row_of(task, found.get(keys[owner], ())) for owner, task in tasks.items()}
        unsure = {keys[owner] for owner, row in rows.items() if _may_have_handed_over(row)}
        returned = _returned(session, unsure) if unsure else {}
        known = {*found, *_audited(session, set(keys.values()) - found.keys())}
        events = _events(
            session, {keys[owner] for owner, row in rows.items() if row is not None and row.state == FAILED}
        )
    return {
        owner: REPLACED
        if _is_of_another_run(tasks[owner], row)
        else _standing(owner, row, returned.get(keys[owner]), events.get(keys[owner], ()), known=keys[owner] in known)
        for owner, row in rows.items()
    }


def _tasks(owners: Collection[str]) -> Iterator[tuple[str, Any]]:
    for owner in owners:
        task = TaskIdentity.read(owner)
        if task is not None:
            yield owner, task


def _is_of_another_run(task: TaskIdentity, row: Row | None) -> bool:
    """Return whether the task's DAG run was deleted and its run_id reused."""
    return row is not None and task.mark is not None and microseconds(row.run_after) != task.mark.run_after


def _row_of(task: TaskIdentity, rows: Sequence[Row]) -> Row | None:
    """Return the row of the try that holds a lease, or of the try that replaced it; one without a state if unclear."""
    if task.mark is not None and (same := [row for row in rows if row.try_id == task.mark.try_id]):
        return same[0]
    alike = [row for row in rows if row.loop_index == task.loop_index] or rows
    return alike[0] if len(alike) == 1 else alike[0]._replace(state=None) if alike else None


def _rows(session: Any, keys: Collection[Key]) -> dict[Key, list[Row]]:
    run = and_(DagRun.dag_id == TaskInstance.dag_id, DagRun.run_id == TaskInstance.run_id)
    task = (*_names(TaskInstance), TaskInstance.state)
    query = select(*task, DagRun.state, DagRun.run_after, TaskInstance.try_number, TaskInstance.id).join(DagRun, run)
    if IN_REGIONS:
        query = _with_regions(query)
    rows: dict[Key, list[Row]] = {}
    for found in _found(session, query, TaskInstance, keys):
        state, run_state, run_after, number, made, *region = found[4:]
        row = Row(_word(state), _word(run_state), run_after, number, made.int >> 64, _loop_index(found[2], *region))
        rows.setdefault((*found[:4],), []).append(row)
    return rows


def _with_regions(query: Any) -> Any:
    """Add the region of a task instance to a query, and leave out those that a clear replaced."""
    instance: Any = TaskInstance
    region: Any = import_module("airflow.models.dynamic_region").DynamicRegion
    query = query.add_columns(instance.region_index, region.node_id, region.parent_region_index)
    return query.outerjoin(region, region.id == instance.region_id).where(instance.working_set.is_(True))


def _loop_index(task_id: str, index: int = -1, node: str | None = None, parent_index: int | None = None) -> int | None:
    """Return the loop iteration of a task instance; a mapped task has a region inside that of the loop."""
    return parent_index if node in (None, task_id) else index


def _returned(session: Any, keys: Collection[Key]) -> dict[Key, Any]:
    """Return the raw `return_value` XComs; a custom XCom backend may store only a reference."""
    query = select(*_names(XComModel), XComModel.value).where(XComModel.key == "return_value")
    return {(*row[:4],): row[4] for row in _found(session, query, XComModel, keys)}


def _audited(session: Any, keys: Collection[Key]) -> Iterator[Key]:
    """Return the keys in the audit log, which has each task's start even after its run or DAG was deleted."""
    query = select(*_names(Log)).distinct()
    return ((*row,) for row in _found(session, query, Log, keys))


def _events(session: Any, keys: Collection[Key]) -> Mapping[Key, Collection[str]]:
    """Return what Airflow itself logged of the newest try of each task instance."""
    same = (mine == its for mine, its in zip(_names(Log), _names(TaskInstance), strict=True))
    newest = and_(*same, Log.try_number == TaskInstance.try_number)
    query = select(*_names(Log), Log.event).join(TaskInstance, newest).where(Log.event.in_([STARTED, *OWN_ENDS]))
    events: dict[Key, set[str]] = {}
    for *key, event in _found(session, query, Log, keys):
        events.setdefault((*key,), set()).add(event)
    return events


def _found(session: Any, query: Any, table: Any, keys: Collection[Key]) -> Iterator[Any]:
    every = list(keys)
    for start in range(0, len(every), CHUNK):
        some = tuple_(*_names(table)).in_(every[start : start + CHUNK])
        yield from session.execute(query.where(some))


def _names(table: Any) -> tuple[Any, ...]:
    return table.dag_id, table.run_id, table.task_id, table.map_index


def _word(state: object) -> str | None:
    return None if state is None else str(getattr(state, "value", state))


def _may_have_handed_over(row: Row | None) -> bool:
    return row is not None and row.state == "success" and row.run_state not in RUN_ENDED


def _standing(owner: str, row: Row | None, returned: Any, events: Collection[str], *, known: bool) -> Standing:
    if row is None:
        return Standing(known, GONE)
    elsewhere = returned is None and IN_REGIONS  # the XCom may be where this module does not read it
    pending = _may_have_handed_over(row) and (elsewhere or _names_owner(returned, owner))
    if row.state not in ENDED or pending:
        return Standing(True, None)
    if row.state != FAILED:
        return Standing(True, f"its task instance has ended ({row.state})")
    if STARTED in events and not OWN_ENDS.keys() & events:
        return Standing(True, "its task instance was marked failed")
    details = "".join(detail for event, detail in OWN_ENDS.items() if event in events)
    return Standing(True, f"try {row.try_number} of its task instance failed{details}", failed=True)


def _names_owner(returned: Any, owner: str) -> bool:
    """Return whether a task's XCom hands over a lease of that owner; True if the XCom is unreadable."""
    try:
        while isinstance(returned, str):
            returned = json.loads(returned)
    except ValueError:
        return True
    return isinstance(returned, Mapping) and returned.get("owner") == owner


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
