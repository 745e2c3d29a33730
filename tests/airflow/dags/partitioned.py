"""A publisher of several partitions, and a consumer whose runs each work on one."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset, PartitionedAssetTimetable, task
from airflow.sdk.execution_time.context import OutletEventAccessor

from rmq_airflow.operators.publish import RedisQueuePublishOperator

ORDERS = Asset("orders")

with DAG("partitioned_publisher", schedule=None, catchup=False) as publisher:
    RedisQueuePublishOperator(
        task_id="publish",
        redis_queue="orders",
        messages=[{"day": "2026-01-01", "id": 1}, {"day": "2026-01-02", "id": 2}, {"day": "2026-01-01", "id": 3}],
        partition_by=lambda order: order["day"],
        asset=ORDERS if hasattr(OutletEventAccessor, "add_partitions") else None,  # Airflow 3.2 refuses it
    )

with DAG("partitioned_consumer", schedule=PartitionedAssetTimetable(assets=ORDERS), catchup=False) as consumer:

    @task.redis_queue(queue="orders/{{ dag_run.partition_key }}")
    def work(messages: Any) -> list[int]:
        return [message.payload["id"] for message in messages]

    work()
