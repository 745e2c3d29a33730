"""The first DAG of the guide: three greetings, slow enough that the reader can kill their task while it works."""

# ruff: noqa: ANN001, ANN201, ANN202  keep the first example short for beginners
from __future__ import annotations

import os
import time
from datetime import timedelta

from airflow.sdk import dag, task

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.sensors.queue import RedisQueueSensor


@dag(schedule=None)
def first_queue():
    publish = RedisQueuePublishOperator(
        task_id="publish", redis_queue="greetings", messages=["hello", "good morning", "good night"]
    )
    wait = RedisQueueSensor(task_id="wait", redis_queue="greetings", min_messages=3, deferrable=True)

    @task.redis_queue(queue="greetings", max_messages=10, retries=2, retry_delay=timedelta(seconds=10))
    def greet(messages):
        for message in messages:
            print(f"{message.payload.upper()}, says process {os.getpid()}")
            time.sleep(10)

    publish >> wait >> greet()


first_queue()
