"""Publish, consume with a failure, consume with success, and read another asset in a function."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, task

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator


def refuse(message: Any) -> None:
    raise ValueError(message.payload)


@task.redis_queue(queue="work", max_messages=10, trigger_rule="all_done", inlets=[Asset("rmq://host:6379/0/other")])
def work(messages: Any) -> int:
    return len(messages)


with DAG("lineage", schedule=None, catchup=False) as dag:
    publish = RedisQueuePublishOperator(task_id="publish", redis_queue="work", messages=["a", "b", "c"])
    fail = RedisQueueConsumeOperator(
        task_id="fail", redis_queue="work", on_message=refuse, max_messages=1, max_failures=0, failed_delay=0
    )
    publish >> fail >> work()
