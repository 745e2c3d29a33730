"""Will Airflow try this task again, and when at the latest.

The answer decides what becomes of a failed task's lease: kept for the next try, or given back. It may be too late a
time, never too early a one: an estimate that is too long only delays a message, one that is too short hands it to
somebody else while the retry is on its way.
"""

from __future__ import annotations

import math
import warnings
from datetime import timedelta

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, Context, conf

from rmq_core import LeasedConfig

SLOT_MARGIN_S = 300.0  # what the scheduler and a busy pool may add to the retry delay


class ShortLeaseWarning(UserWarning):
    """A task's lease ends before its retry can come."""


def warn_of_short_lease(
    task: BaseOperator, name: str, lease: timedelta | float | None, config: LeasedConfig | None = None
) -> None:
    """ShortLeaseWarning when a try that is killed for good would not be taken over by its retry.

    name: the parameter that says how long the lease is; `config` where that says nothing. What the connection says is
    not known when a DAG is parsed.
    """
    if lease is None:
        name, lease = "queue_config", None if config is None else config.lease
    if lease is None or not task.retries or _seconds(lease) > _seconds(task.retry_delay):
        return
    warnings.warn(
        f"task {task.task_id!r}: `{name}` holds messages for {_seconds(lease):g} s and `retry_delay` is "
        f"{_seconds(task.retry_delay):g} s. The retry of a try that was killed with SIGKILL comes too late for them: "
        "they count as failed and go to whoever claims next. Make the lease longer, or the delay shorter",
        ShortLeaseWarning,
        stacklevel=3,
    )


def keep_lease_s(context: Context, error: BaseException) -> float | None:
    """Seconds to keep a failed task's lease so that its retry finds it; None when this was the last try."""
    ti = context["ti"]
    if isinstance(error, AirflowFailException) or ti.try_number > ti.max_tries:
        return None
    action, delay_s = _decided(context, error)
    if action == "fail":
        return None
    return max(delay_s, latest_delay_s(ti.task, ti.try_number)) + SLOT_MARGIN_S


def latest_delay_s(task: BaseOperator, try_number: int) -> float:
    """The longest time in seconds that Airflow may wait before the try after `try_number`."""
    delay = _seconds(task.retry_delay)
    if task.retry_exponential_backoff in (0, 1):
        return delay
    # Airflow rounds the power up and jitters between one and two times of it.
    delay = 2 * (delay * _power(float(task.retry_exponential_backoff), try_number - 1) + 1)
    if task.max_retry_delay is not None:
        delay = min(delay, _seconds(task.max_retry_delay))
    return min(delay, float(conf.getint("core", "max_task_retry_delay", fallback=24 * 60 * 60)))


def _decided(context: Context, error: BaseException) -> tuple[str, float]:
    """What the task's `retry_policy`, which Airflow has from 3.3 on, makes of the error, and the delay it asks for."""
    ti = context["ti"]
    policy = getattr(ti.task, "retry_policy", None)
    if policy is None:
        return "default", 0.0
    try:
        decision = policy.evaluate(exception=error, try_number=ti.try_number, max_tries=ti.max_tries, context=context)
        return decision.action.value, _seconds(decision.retry_delay or 0)
    except Exception:  # noqa: BLE001  Airflow does without a policy that raises, and says why in the log
        return "default", 0.0


def _seconds(value: timedelta | float) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _power(multiplier: float, exponent: int) -> float:
    try:
        return multiplier**exponent
    except OverflowError:
        return math.inf
