"""Find out from Airflow why a task was killed.

Law: an action of a user or a deployment (clear, mark, delete, SIGTERM to a worker that shuts down) is not a failure of
the messages. Airflow gives `on_kill` no reason, so `on_kill` requests the task's state. If it gets no answer within two
seconds, the kill counts as a failure, and so does a lost heartbeat.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, NamedTuple

from rmq_airflow.identity import TaskIdentity

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol


ASK_S = 2.0  # Airflow sends SIGKILL five seconds after SIGTERM, and settling the messages may take two of the five
GONE = "gone"
WHY = {
    "running": "its worker was told to shut down",
    "restarting": "it was cleared",
    "up_for_retry": "Airflow had received no heartbeat from it",
    GONE: "its run was deleted",
}
FAILURES = ("up_for_retry",)


class Kill(NamedTuple):
    """The reason why a task was killed, and whether the kill counts as a failure of its messages."""

    why: str
    is_failure: bool


UNKNOWN = Kill("Airflow did not say why", is_failure=True)


class TaskKilled(BaseException):
    """The task was killed while it worked.

    This is a BaseException, like Airflow's own timeout, so that an `except Exception` in the work does not catch it.
    """


def why_killed(ti: RuntimeTaskInstanceProtocol | None, owner: str) -> Kill:
    """Ask Airflow, in a separate thread, why the task was killed, and wait at most `ASK_S` seconds.

    owner: as which the task holds its lease. In a task loop the reason stays unknown, because Airflow's answer does not
    tell the iterations apart.
    A signal handler calls this, and the code that it interrupts may hold the lock of the connection to the supervisor.
    """
    states: list[str | None] = []
    task = TaskIdentity.read(owner)
    if task is not None and task.loop_index is not None:
        return UNKNOWN
    asking = threading.Thread(target=_ask, args=(ti, states), name="rmq-why-killed", daemon=True)
    asking.start()
    asking.join(ASK_S)
    if not states:
        return UNKNOWN
    state = states[0]
    return Kill(WHY.get(str(state), f"its state in Airflow is {state}"), state in FAILURES)


def _ask(ti: RuntimeTaskInstanceProtocol, states: list[str | None]) -> None:
    # The API server or the supervisor may fail, or this Airflow may lack the call: the reason then stays unknown.
    with contextlib.suppress(Exception):
        index = None if ti.map_index == -1 else ti.map_index
        found = ti.get_task_states(ti.dag_id, map_index=index, task_ids=[ti.task_id], run_ids=[ti.run_id])
        name = ti.task_id if index is None else f"{ti.task_id}_{index}"
        states.append(found.get(ti.run_id, {}).get(name, GONE))
