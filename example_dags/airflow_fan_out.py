"""One mapped task for each share of the work: each mapped task claims its own share.

A task is not assigned particular messages; it claims the next ones. So the number and the order of running tasks do not
matter, and neither do retries, since a retry gets the same messages again. Each task continues until the queue is
empty. So the same run also processes messages that a task released when it was cleared or was marked as success or
failed, and messages that an earlier claim left out because they had failed together.
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
    """Return one number for each share of the messages that the sensor counted."""
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
    """Process a batch. It is acked on return; if this raises, the retry gets it; after the last try it is nacked."""
    done = [summarise(payload, FOLDER) for payload in messages.payloads]
    return {"share": share, "months": len(done), "hours": sum(each["hours"] for each in done)}


# [END howto_operator_redis_queue_decorator]


@task
def total(parts: Any) -> dict[str, float]:
    """Add up all batches of all tasks."""
    # The slice is one request; a loop over `parts` makes one for each task, and one more that Airflow logs as an error.
    found = [batch for part in parts[:] for batch in part]
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
