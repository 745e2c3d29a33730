"""Tasks that fail while a retry is left, and keep their messages for it: the retry is an hour away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

ROUNDS = 3  # a DAG that is deleted cannot be used again
QUEUE = "{{ dag_run.conf['queue'] }}"

for name in ("kept", *(f"kept_deleted_{number}" for number in range(ROUNDS))):
    with DAG(name, schedule=None, catchup=False, max_active_runs=32) as kept:

        @task.redis_queue(queue=QUEUE, retries=3, retry_delay=timedelta(hours=1))
        def take(messages: Any) -> None:
            """Raise."""
            raise RuntimeError(f"{len(messages)} messages and no luck")

        take()

    globals()[name] = kept
