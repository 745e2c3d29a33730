"""Flight delays in Airflow: publish 1,095 airport-days, wait until they are ready, process them in Spark, report.

It needs two connections, for example on a machine without Redis and without a Spark cluster:

    export AIRFLOW_CONN_REDIS_QUEUE_DEFAULT='{"conn_type": "redis_queue", "host": "embedded:///tmp/flights"}'
    export AIRFLOW_CONN_SPARK_DEFAULT='{"conn_type": "spark", "host": "local[*]"}'

Tables and the report go into the folder RMQ_DEMO_RESULTS, by default `flights` below the directory for temporary files.
The Spark task may be killed at any point: its retry takes over the same messages and overwrites what it wrote.
"""

from __future__ import annotations

import json
import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task
from flights import flights_csv, weather_csv, work_items, written

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.spark_submit import RedisQueueSparkSubmitOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import LeasedConfig

QUEUE = "airport-days"
CONFIG = LeasedConfig(lease=timedelta(minutes=2), dedup=True)
RESULTS = Path(os.environ.get("RMQ_DEMO_RESULTS", Path(tempfile.gettempdir(), "flights"))).absolute()
JOB = Path(__file__).parent / "jobs" / "delays.py"


def java_and_python() -> dict[str, str]:
    """Return Java and Python for Spark on this machine; the import in the task does not slow down the DAG parser."""
    from rmq_spark import spark_environment

    return spark_environment()


@task
def unpack() -> str:
    """Unpack the flights, because Spark does not read zip files."""
    return str(flights_csv(RESULTS))


@task
def report(published: dict[str, Any], again: dict[str, Any], worked: dict[str, Any]) -> dict[str, int]:
    """Count messages and written rows; the expected result is 336,776 rows, 58,665 of them United's."""
    with RedisQueueHook().queue(QUEUE, CONFIG) as queue:
        left = queue.stats()
    counts = {
        "published": published["accepted"],
        "deduplicated": published["duplicates"] + again["duplicates"],
        "claimed": worked["claimed"],
        "acked": worked["acked"],
        "ready": left.ready,
        "leased": left.leased,
        "dead": left.dead,
        **written(RESULTS),
    }
    (RESULTS / "airflow.json").write_text(json.dumps(counts))
    return counts


with DAG(
    "flights_airflow",
    schedule=None,
    catchup=False,
    tags=["rmq", "example"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=2)},
) as dag:
    publish, publish_again = (
        RedisQueuePublishOperator(task_id=task_id, redis_queue=QUEUE, messages=work_items, queue_config=CONFIG)
        for task_id in ("publish", "publish_again")
    )
    # Within the deduplication window a second run publishes nothing new: the sensor is skipped, not failed.
    wait = RedisQueueSensor(
        task_id="wait", redis_queue=QUEUE, min_messages=1095, max_age=60, deferrable=True, timeout=300, soft_fail=True
    )
    delays = RedisQueueSparkSubmitOperator(
        task_id="delays",
        redis_queue=QUEUE,
        max_messages=2000,
        queue_config=CONFIG,
        application=str(JOB),
        application_args=["--flights", unpack(), "--weather", str(weather_csv()), "--results", str(RESULTS)],
        spark_env=java_and_python,
        verbose=False,
    )
    publish >> publish_again >> wait >> delays
    report(publish.output, publish_again.output, delays.output)


if __name__ == "__main__":
    dag.test()
