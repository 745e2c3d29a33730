"""Why a task was killed, and whether and when Airflow will try it again.

Law: an action of a user or a deployment (clear, mark, delete, SIGTERM to a worker that shuts down) is not a failure of
the messages. Airflow gives `on_kill` no reason, so `on_kill` requests the task's state. If it gets no answer within two
seconds, the kill counts as a failure, and so does a lost heartbeat.

Whether a task will be tried again decides whether its lease is kept or settled. The estimate when may be too long, but
never too short: too long an estimate only delays a message, while too short an estimate lets another consumer claim it
before the retry starts.
"""

from __future__ import annotations

import contextlib
import math
import threading
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, Context, conf

from rmq_airflow.identity import TaskIdentity
from rmq_core import LeasedConfig

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


SLOT_MARGIN_S = 300.0  # delay that the scheduler and a busy pool may add to the retry delay


class ShortLeaseWarning(UserWarning):
    """A task's lease expires before its retry can start."""


def warn_of_short_lease(
    task: BaseOperator, name: str, lease: timedelta | float | None, config: LeasedConfig | None = None
) -> None:
    """Warn with ShortLeaseWarning if the lease of a try killed by SIGKILL expires before the retry can take it over.

    name: the parameter that gave `lease`. If `lease` is None, the lease of `config` counts. The default of the
    connection is not checked, because it is unknown while a DAG is parsed.
    """
    if lease is None:
        name, lease = "queue_config", None if config is None else config.lease
    if lease is None or not task.retries or _seconds(lease) > _seconds(task.retry_delay):
        return
    warnings.warn(
        f"task {task.task_id!r}: `{name}` holds messages for {_seconds(lease):g} s and `retry_delay` is "
        f"{_seconds(task.retry_delay):g} s. After a SIGKILL, the lease expires before the retry starts: the messages "
        "count as failed, and any consumer can claim them. Make the lease longer, or the delay shorter",
        ShortLeaseWarning,
        stacklevel=3,
    )


def keep_lease_s(context: Context, error: BaseException) -> float | None:
    """Return for how many seconds to keep a failed task's lease for its retry; None if this was the last try."""
    ti = context["ti"]
    if isinstance(error, AirflowFailException) or ti.try_number > ti.max_tries:
        return None
    action, delay_s = _decided(context, error)
    if action == "fail":
        return None
    return max(delay_s, latest_delay_s(ti.task, ti.try_number)) + SLOT_MARGIN_S


def latest_delay_s(task: BaseOperator, try_number: int) -> float:
    """Return the longest time in seconds that Airflow may wait before the try after `try_number`."""
    delay = _seconds(task.retry_delay)
    if task.retry_exponential_backoff in (0, 1):
        return delay
    # Airflow rounds the product up and adds jitter: the delay is between one and two times the product.
    delay = 2 * (delay * _power(float(task.retry_exponential_backoff), try_number - 1) + 1)
    if task.max_retry_delay is not None:
        delay = min(delay, _seconds(task.max_retry_delay))
    return min(delay, float(conf.getint("core", "max_task_retry_delay", fallback=24 * 60 * 60)))


def _decided(context: Context, error: BaseException) -> tuple[str, float]:
    """Return the action and delay in seconds that the task's `retry_policy` (Airflow 3.3 on) chooses for an error."""
    ti = context["ti"]
    policy = getattr(ti.task, "retry_policy", None)
    if policy is None:
        return "default", 0.0
    try:
        decision = policy.evaluate(exception=error, try_number=ti.try_number, max_tries=ti.max_tries, context=context)
        return decision.action.value, _seconds(decision.retry_delay or 0)
    except Exception:  # Airflow ignores a policy that raises, and logs why
        return "default", 0.0


def _seconds(value: timedelta | float) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _power(multiplier: float, exponent: int) -> float:
    try:
        return multiplier**exponent
    except OverflowError:
        return math.inf
