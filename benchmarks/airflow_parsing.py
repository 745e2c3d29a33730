"""What RMQ's imports cost a DAG processor: `python -m benchmarks.airflow_parsing` prints milliseconds of its processor.

Each parse is in a process that a parent forks which has imported Airflow and frozen its objects, as Airflow's DAG
processor does. A DAG with RMQ's operators alternates with one of the same shape that has only Airflow's own.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import time

from tests.airflow.home import prepare

ROUNDS = 15
AIRFLOWS = """
from airflow.providers.standard.operators.empty import EmptyOperator as Consume, EmptyOperator as Publish
from airflow.providers.standard.sensors.python import PythonSensor
from airflow.sdk import DAG
with DAG("parsed", schedule=None):
    Publish(task_id="publish") >> PythonSensor(task_id="wait", python_callable=bool) >> Consume(task_id="work")
"""
OURS = """
from airflow.sdk import DAG
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
with DAG("parsed", schedule=None):
    (
        RedisQueuePublishOperator(task_id="publish", redis_queue="q", messages=["a"])
        >> RedisQueueSensor(task_id="wait", redis_queue="q")
        >> RedisQueueConsumeOperator(task_id="work", redis_queue="q", on_message=print)
    )
"""


def measure() -> tuple[float, float]:
    """Return the median milliseconds of a parse with Airflow's operators, and with RMQ's."""
    prepare()
    import airflow.dag_processing.processor
    import airflow.providers.common.compat.sdk
    import airflow.sdk.bases.sensor  # noqa: F401  what a DAG processor has, or every DAG needs

    gc.freeze()
    found = [(_parsed_ms(AIRFLOWS), _parsed_ms(OURS)) for _ in range(ROUNDS + 1)][1:]  # the first writes bytecode
    theirs, ours = map(statistics.median, zip(*found, strict=True))
    return theirs, ours


def _parsed_ms(source: str) -> float:
    reading, writing = os.pipe()
    if child := os.fork():
        os.close(writing)
        with os.fdopen(reading) as said:
            text = said.read()
        os.waitpid(child, 0)
        return float(text)
    try:
        began = time.process_time()
        exec(source, {})
        os.write(writing, str((time.process_time() - began) * 1000).encode())
    finally:
        os._exit(0)


if __name__ == "__main__":
    print(json.dumps(measure()))
