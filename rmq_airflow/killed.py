"""Why a task was killed, as far as Airflow says.

Law: what people and deployments do is no failure of the messages: clear, mark, delete, SIGTERM to a worker that shuts
down. `on_kill` is told no reason, so it asks for the task's state. What it cannot learn within two seconds counts as a
failure, and so does a lost heartbeat.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

ASK_S = 2.0  # Airflow sends SIGKILL five seconds after SIGTERM, and giving back may take two of them
GONE = "gone"
WHY = {
    "running": "its worker was told to shut down",
    "restarting": "it was cleared",
    "up_for_retry": "Airflow had heard no heartbeat of it",
    GONE: "its run was deleted",
}
FAILURES = ("up_for_retry",)


class Kill(NamedTuple):
    """Why a task was killed, and whether that counts as a failure of its messages."""

    why: str
    is_failure: bool


class TaskKilled(BaseException):
    """The task was killed while it worked.

    A BaseException, as Airflow's own time-out is one: `except Exception` around the work must not keep it going.
    """


def why_killed(ti: RuntimeTaskInstanceProtocol | None) -> Kill:
    """Ask Airflow. For a signal handler: what it interrupts may hold the lock of the way to the supervisor."""
    states: list[str | None] = []
    asking = threading.Thread(target=_ask, args=(ti, states), name="rmq-why-killed", daemon=True)
    asking.start()
    asking.join(ASK_S)
    if not states:
        return Kill("Airflow did not say why", is_failure=True)
    state = states[0]
    return Kill(WHY.get(str(state), f"Airflow has it as {state}"), state in FAILURES)


def _ask(ti: RuntimeTaskInstanceProtocol, states: list[str | None]) -> None:
    # The API server, the supervisor, an Airflow that does not have it: whatever fails, then nobody knows.
    with contextlib.suppress(Exception):
        index = None if ti.map_index == -1 else ti.map_index
        found = ti.get_task_states(ti.dag_id, map_index=index, task_ids=[ti.task_id], run_ids=[ti.run_id])
        name = ti.task_id if index is None else f"{ti.task_id}_{index}"
        states.append(found.get(ti.run_id, {}).get(name, GONE))
