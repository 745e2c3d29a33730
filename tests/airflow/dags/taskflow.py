"""`@task.redis_queue` mapped and retried; then a hand-over from a sensor to a task, followed by a teardown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

with DAG("taskflow", schedule=None, catchup=False) as dag:

    @task.redis_queue(queue="work", max_messages=2, retries=1, retry_delay=timedelta(seconds=0.1))
    def mapped(messages: Any, day: int, ti: Any = None) -> list[str]:
        if day == 1 and ti.try_number == 1:
            raise ValueError("only the retry works")
        return [f"day{day}: {payload}" for payload in messages.payloads]

    @task
    def total(parts: Any) -> list[str]:
        return sorted(item for part in parts for item in part)

    summed = total(mapped.expand(day=[0, 1, 2]))
    publishes = RedisQueuePublishOperator(task_id="publishes", redis_queue="work", messages=["x", "y"])
    wait = RedisQueueSensor(task_id="wait", redis_queue="work", min_messages=2, hand_over=True, deferrable=True)

    @task.redis_queue(hand_over=wait.output)
    def adopts(messages: Any) -> list[str]:
        return list(messages.payloads)

    gives_back = RedisQueueSettleOperator(task_id="gives_back", hand_over=wait.output)
    summed >> publishes >> wait >> adopts() >> gives_back.as_teardown(setups=wait)
