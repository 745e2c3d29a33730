"""As many tasks as there is work for: each mapped task claims a share of its own.

No task is told which messages are its: it takes what is next. So it does not matter how many tasks run at once, in
which order, and whether one of them comes back as a retry, which gets its own messages again. Each goes on until the
queue is empty: what a task gave back that was cleared or marked, and what a claim leaves out of messages that failed
together, is worked on in the same run.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task
from weather import airport_months, summarise

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

QUEUE = "airport-months-to-fan-out"
FOLDER = "fan_out"
SHARE = 12


@task
def shares(seen: dict[str, Any]) -> list[int]:
    """One number for each share of what the sensor saw."""
    return list(range(-(-int(seen["ready"]) // SHARE)))


# [START howto_operator_redis_queue_decorator]
@task.redis_queue(
    queue=QUEUE,
    max_messages=SHARE,
    max_batches=None,
    lease=timedelta(minutes=2),
    retries=2,
    retry_delay=timedelta(seconds=30),
)
def work(messages: Any, share: int) -> dict[str, float]:
    """Returns: the batch is acked. Raises: the retry gets the same messages; after the last try they go back."""
    done = [summarise(payload, FOLDER) for payload in messages.payloads]
    return {"share": share, "months": len(done), "hours": sum(each["hours"] for each in done)}


# [END howto_operator_redis_queue_decorator]


@task
def total(parts: Any) -> dict[str, float]:
    """All batches of all tasks together."""
    found = [batch for part in parts for batch in part]
    return {name: sum(part[name] for part in found) for name in ("months", "hours")}


with DAG("fan_out", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    publish = RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=airport_months)
    # [START howto_operator_redis_queue_sensor]
    wait = RedisQueueSensor(
        task_id="wait",
        redis_queue=QUEUE,
        min_messages=SHARE,
        max_age=timedelta(minutes=5),
        max_messages=10 * SHARE,
        deferrable=True,
    )
    # [END howto_operator_redis_queue_sensor]
    publish >> wait
    total(work.expand(share=shares(wait.output)))


if __name__ == "__main__":
    dag.test()
