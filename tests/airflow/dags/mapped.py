"""Mapped tasks: each publishes its own list, and each holds its own lease."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import DAG, task

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator

with DAG("mapped", schedule=None, catchup=False) as dag:

    @task
    def lists() -> list[list[str]]:
        return [["a1", "a2"], ["b1", "b2"], ["c1", "c2"]]

    @task
    def markers() -> list[list[str]]:
        return [["adopt_and_ack", f"{os.environ['RMQ_TESTS_MARKER']}-{number}"] for number in range(3)]

    publish = RedisQueuePublishOperator.partial(task_id="publish", redis_queue="work").expand(messages=lists())
    work = RedisQueueSparkSubmitOperator.partial(
        task_id="work",
        redis_queue="work",
        max_messages=2,
        application=str(Path(__file__).parents[1] / "jobs" / "driver.py"),
    ).expand(application_args=markers())
    publish >> work
