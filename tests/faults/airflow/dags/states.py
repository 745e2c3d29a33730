"""Four states in which a fault may find a pipeline, one DAG each; and each again with a task that times out.

In the DAG `flow`, no task stands still: a fault may find it anywhere.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import LeasedConfig, LeaseLost
from tests.faults.airflow.ledger import Ledger, fence_of

TOTAL = 20
QUEUE = "{{ dag_run.conf['queue'] }}"
RETRIES = {"retries": 3, "retry_delay": timedelta(seconds=5)}
TIMEOUT = timedelta(seconds=20)


def one_by_one(batch: Any) -> None:
    """Work on each message and ack it by itself, so that the ledger can tell what was settled."""
    ledger, fence = Ledger(batch.queue.name), fence_of(batch.lease.token)
    for message in batch:
        ledger.work(fence, message.id, message.payload)
        try:
            batch.ack(message)
        except LeaseLost:
            ledger.write("stale", fence, [message.id])
            raise
        ledger.write("acked", fence, [message.id])


def java_and_python() -> dict[str, str]:
    """Return the variables that Spark needs, or none when the driver runs without Spark."""
    if os.environ["RMQ_TESTS_DRIVER"].endswith("light.py"):
        return {}
    from rmq_spark import spark_environment

    return spark_environment()


def dag(state: str, timeout: timedelta | None) -> DAG:
    name = f"{state}_timed" if timeout else state
    return DAG(name, schedule=None, catchup=False, default_args=RETRIES, max_active_runs=16)


for timeout in (None, TIMEOUT):
    with dag("deferred", timeout) as deferred:
        # Airflow enforces the timeout of a deferred task only if the scheduler deferred the task.
        at_once = {"redis_queue": "execution-timeout.deferred", "start_from_trigger": True}
        wait = RedisQueueSensor(
            task_id="wait",
            min_messages=TOTAL,
            deferrable=True,
            timeout=900,
            execution_timeout=2 * timeout if timeout else None,  # the trigger must start in this time
            **(at_once if timeout else {"redis_queue": QUEUE}),
        )
        wait >> RedisQueueConsumeOperator(task_id="take", redis_queue=QUEUE, on_batch=one_by_one)

    with dag("consume", timeout) as consuming:
        RedisQueueConsumeOperator(task_id="take", redis_queue=QUEUE, on_batch=one_by_one, execution_timeout=timeout)

    with dag("spark", timeout) as spark:
        RedisQueueSparkSubmitOperator(
            task_id="submit",
            redis_queue=QUEUE,
            application=os.environ["RMQ_TESTS_DRIVER"],
            spark_env=java_and_python,
            execution_timeout=6 * timeout if timeout else None,  # Spark must start in this time
        )

    with dag("handover", timeout) as handover:
        wait = RedisQueueSensor(
            task_id="wait", redis_queue=QUEUE, min_messages=TOTAL, hand_over=900, deferrable=True, timeout=900
        )

        @task(execution_timeout=timeout)
        def between(dag_run: Any = None) -> None:
            """Stand still while the lease has no holder: only its deadline can end the lease."""
            Ledger(dag_run.conf["queue"]).stand_still()

        @task.redis_queue(hand_over=wait.output)
        def take(messages: Any) -> None:
            """Adopt the lease."""
            if messages:
                one_by_one(messages)

        gives_back = RedisQueueSettleOperator(task_id="gives_back", hand_over=wait.output)
        wait >> between() >> take() >> gives_back.as_teardown(setups=wait)

    globals().update({one.dag_id: one for one in (deferred, consuming, spark, handover)})

with DAG("flow", schedule=None, catchup=False, default_args=RETRIES, max_active_runs=16) as flow:
    publish = RedisQueuePublishOperator(
        task_id="publish",
        redis_queue=QUEUE,
        messages=[str(number) for number in range(TOTAL)],
        queue_config=LeasedConfig(dedup=True),
    )
    arrived = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, min_messages=TOTAL, deferrable=True, timeout=900)
    publish >> arrived >> RedisQueueConsumeOperator(task_id="take", redis_queue=QUEUE, on_batch=one_by_one)
