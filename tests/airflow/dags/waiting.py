"""A sensor in each of its modes; the task after it returns the report of the sensor."""

from __future__ import annotations

from airflow.sdk import DAG, task

from rmq_airflow.sensors.queue import RedisQueueSensor

MODES = {
    "poke": {"poke_interval": 0.2},
    "reschedule": {"mode": "reschedule", "poke_interval": 1},
    "deferrable": {"deferrable": True},
    "from_the_start": {"deferrable": True, "start_from_trigger": True},
}


@task
def seen(report: dict[str, object]) -> dict[str, object]:
    return report


for name, options in MODES.items():
    with DAG(f"waiting_{name}", schedule=None, catchup=False) as dag:
        seen(RedisQueueSensor(task_id="wait", redis_queue="work", min_messages=3, timeout=300, **options).output)
    globals()[dag.dag_id] = dag
