"""A Spark job adds up a batch of orders; a message that is no order is redelivered.

Needs two connections, for example on a machine without Redis and without a Spark cluster:

    export AIRFLOW_CONN_REDIS_QUEUE_DEFAULT='{"conn_type": "redis_queue", "host": "embedded:///tmp/orders"}'
    export AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[2]"}'
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from airflow.sdk import DAG

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator

ORDERS = [{"customer": name, "amount": amount} for name in ("ada", "bob") for amount in (1.5, 2.0, 4.0)]
TOTALS = Path(tempfile.gettempdir(), "totals")

with DAG("orders", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    publish = RedisQueuePublishOperator(task_id="publish", redis_queue="orders", messages=[*ORDERS, "no order"])
    total = RedisQueueSparkSubmitOperator(
        task_id="total",
        redis_queue="orders",
        max_messages=2000,
        application=str(Path(__file__).parent / "jobs" / "totals.py"),
        application_args=[str(TOTALS)],
    )
    publish >> total


if __name__ == "__main__":
    dag.test()
