"""Report a task's counters to Airflow's metrics: named `rmq.…`, tagged with the queue and the operator.

Law: metrics contain numbers and names, never a payload. In a worker, the task SDK receives them; in the triggerer,
Airflow itself does. `waiting.py` reports the metrics of triggers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator, Stats

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import BaseNotifier

COUNTS = "_rmq_counts"


def report_counts(task: BaseOperator | BaseNotifier, queue: str, **counts: int) -> None:
    """Add each count to the counter `rmq.<name>`, skipping counts of zero; `reported_counts` returns them all."""
    known = vars(task).setdefault(COUNTS, {}).setdefault(queue, {})
    tags: dict[str, Any] = {"queue": queue, "operator": type(task).__name__}
    for name, count in counts.items():
        known[name] = known.get(name, 0) + count
        if count:
            Stats.incr(f"rmq.{name}", count, tags=tags)


def reported_counts(task: Any) -> dict[str, dict[str, int]]:
    """Return the counts that a task has reported, by queue."""
    return dict(vars(task).get(COUNTS, {}))
