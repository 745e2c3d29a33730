"""A task that holds its messages until it is stopped."""

from __future__ import annotations

import time
from typing import Any

from airflow.sdk import DAG, task

with DAG("held", schedule=None):

    @task.redis_queue(queue="work", max_messages=9, retries=3)
    def work(messages: Any) -> None:
        time.sleep(600)

    work()
