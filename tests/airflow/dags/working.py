"""Publish, wait and work, with a driver that is killed in its first try."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_airflow.sensors.queue import RedisQueueSensor


def payloads() -> list[str]:
    # From the environment, because Airflow stores the source of a DAG.
    return [f"{os.environ['RMQ_TESTS_PAYLOAD']}-{number}" for number in range(20)]


with DAG("working", schedule=None, catchup=False) as dag:
    publish = RedisQueuePublishOperator(task_id="publish", redis_queue="work", messages=payloads)
    wait = RedisQueueSensor(task_id="wait", redis_queue="work", min_messages=20, deferrable=True, timeout=300)
    work = RedisQueueSparkSubmitOperator(
        task_id="work",
        redis_queue="work",
        application=str(Path(__file__).parents[1] / "jobs" / "driver.py"),
        application_args=["die_once", os.environ.get("RMQ_TESTS_MARKER", "")],
        retries=1,
        retry_delay=timedelta(seconds=1),
    )
    publish >> wait >> work
