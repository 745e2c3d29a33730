"""What Airflow's metrics hear of a task: counters under `rmq.`, tagged with the queue and the operator.

Law: numbers and names, never a payload. In a worker the task SDK listens, in the triggerer Airflow itself; those of
triggers are told where they wait.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import BaseOperator, Stats


def tell(task: BaseOperator, queue: str, **counts: int) -> None:
    """Add to the counters `rmq.<name>`; what did not happen is not told."""
    tags: dict[str, Any] = {"queue": queue, "operator": type(task).__name__}
    for name, count in counts.items():
        if count:
            Stats.incr(f"rmq.{name}", count, tags=tags)
