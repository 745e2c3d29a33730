"""Ways to work on a batch, in runs that are repeated, or deleted and created again under their name."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import LeasedConfig
from tests.faults.airflow.ledger import Ledger

JOB = Path(__file__).parents[1] / "jobs" / "once.py"
QUEUE = "{{ dag_run.conf['queue'] }}"
LONG = LeasedConfig(lease=timedelta(hours=1))
LATE = {"retries": 1, "retry_delay": timedelta(minutes=30)}


def keeps(queue: str) -> bool:
    """Return whether this is the try that must end while it holds its messages."""
    return (Ledger(queue).folder / "keeps").exists()


def hang(messages: Any) -> None:
    """Wait until the process is killed."""
    if keeps(messages.queue.name):
        Ledger(messages.queue.name).stand_still()


def work(messages: Any) -> int:
    """Raise, or return and thereby ack the messages."""
    if keeps(messages.queue.name):
        raise RuntimeError("as it was told")
    return len(messages)


def java_and_python() -> dict[str, str]:
    """Set Java for Spark, where the launcher is Spark's."""
    if os.environ["RMQ_TESTS_DRIVER"].endswith("light.py"):
        return {}
    from rmq_spark import spark_environment

    return spark_environment()


for on_settled in ("skip", "next"):
    with DAG(f"decorator_{on_settled}", schedule=None, catchup=False) as decorator:
        task.redis_queue(queue=QUEUE, queue_config=LONG, task_id="take", on_settled=on_settled, **LATE)(work)()

    with DAG(f"spark_{on_settled}", schedule=None, catchup=False) as spark:
        RedisQueueSparkSubmitOperator(
            task_id="take",
            redis_queue=QUEUE,
            queue_config=LONG,
            application=str(JOB),
            spark_env=java_and_python,
            on_settled=on_settled,
            **LATE,
        )
    globals().update({one.dag_id: one for one in (decorator, spark)})

with DAG("consume_again", schedule=None, catchup=False):
    RedisQueueConsumeOperator(task_id="take", redis_queue=QUEUE, queue_config=LONG, on_batch=hang, **LATE)

with DAG("sensor_again", schedule=None, catchup=False):
    wait = RedisQueueSensor(
        task_id="wait", redis_queue=QUEUE, min_messages=5, hand_over=timedelta(hours=1), poke_interval=5, timeout=900
    )

    @task
    def between(dag_run: Any = None) -> None:
        """A sensor that hands over a lease that no task adopts."""
        if keeps(dag_run.conf["queue"]):
            raise RuntimeError("as it was told")

    wait >> between() >> task.redis_queue(hand_over=wait.output, task_id="take")(work)()
