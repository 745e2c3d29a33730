"""Two tasks publish parts of one publication, and the first try of one fails midway; a branch looks at the counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

MODES = {
    "poke": {"poke_interval": 0.2},
    "reschedule": {"mode": "reschedule", "poke_interval": 1},
    "deferrable": {"deferrable": True},
}


def in_two_tries(ti: Any) -> Any:
    """Return two payloads; raise between them in the first try."""
    yield "a1"
    if ti.try_number == 1:
        raise ValueError
    yield "a2"


@task.branch
def is_good(done: dict[str, Any]) -> str:
    return "repair" if done["dead"] else "report"


@task
def report(done: dict[str, Any]) -> dict[str, Any]:
    return done


@task
def repair(done: dict[str, Any]) -> dict[str, Any]:
    return done


for name, options in MODES.items():
    with DAG(f"publications_{name}", schedule=None, catchup=False) as dag:
        parts = [
            RedisQueuePublishOperator(
                task_id=task_id,
                redis_queue="work",
                messages=messages,
                publication="{{ run_id }}",
                retries=1,
                retry_delay=timedelta(0),
            )
            for task_id, messages in {"first": in_two_tries, "second": ["b1", "b2"]}.items()
        ]
        wait = RedisQueueSensor(task_id="wait", redis_queue="work", publication="{{ run_id }}", timeout=300, **options)
        parts >> wait
        is_good(wait.output) >> [report(wait.output), repair(wait.output)]
    globals()[dag.dag_id] = dag
