"""Mapped tasks with a queue that is known only when they run."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task

with DAG("linked", schedule=None, catchup=False) as dag:

    @task.redis_queue(queue="{{ dag.dag_id }}", max_messages=1)
    def work(messages: Any, number: int) -> int:
        return number + len(messages)

    work.expand(number=[0, 1])
