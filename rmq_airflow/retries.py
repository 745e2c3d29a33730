"""Estimate whether Airflow will try a task again, and when at the latest.

Whether a task will be tried again decides whether its lease is kept or settled. The estimate when may be too long, but
never too short: too long an estimate only delays a message, while too short an estimate lets another consumer claim it
before the retry starts.
"""

from __future__ import annotations

import math
import warnings
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, Context, conf

from rmq_core import LeasedConfig

if TYPE_CHECKING:
    pass


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
