"""Publish, wait and consume, with every default of a user's first DAG."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, task

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import Message

QUEUE = "undisturbed"


def work(message: Message) -> None:
    """Process one message."""
    assert message.payload


@task.redis_queue(queue=QUEUE)
def nothing_left(messages: Any) -> int:
    """Return how many messages the consumer left."""
    return len(messages)


with DAG("undisturbed", schedule=None, catchup=False):
    publish = RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=["a", "b", "c"])
    wait = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, min_messages=3, deferrable=True)
    consume = RedisQueueConsumeOperator(task_id="consume", redis_queue=QUEUE, on_message=work)
    publish >> wait >> consume >> nothing_left()
