"""Airlines take turns, a rerun comes first, and the report starts when everything that the run published is done.

An empty queue is no sign of that, because a worker elsewhere may still process messages of this run. So the
publishing tasks name the run as the publication of their messages, and a sensor after them waits for its end.
"""

from __future__ import annotations

import json
import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task
from flights import carrier_months, count_late

from rmq_airflow.hooks.queue import RedisQueueHook
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

QUEUE = "carrier-months"
RESULTS = Path(os.environ.get("RMQ_DEMO_RESULTS", tempfile.gettempdir())).absolute() / "carriers"


@task
def share() -> None:
    """Store with the queue that groups take turns; `rmq configure carrier-months groups=fair` does the same once."""
    with RedisQueueHook().queue(QUEUE) as queue:
        queue.admin.configure(groups="fair")


def airline(item: dict[str, Any]) -> str:
    """Return the group of a message."""
    return str(item["carrier"])


@task.redis_queue(queue=QUEUE, max_messages=20, max_batches=None, retries=2, retry_delay=timedelta(seconds=5))
def work(messages: Any) -> int:
    """Process a batch, and return how many of its messages are of the rerun."""
    for message in messages:
        count_late(message.payload, RESULTS)
    return sum(message.priority != "" for message in messages)


@task
def report(done: dict[str, Any]) -> dict[str, Any]:
    """Add up all carrier-months: 336,776 departures."""
    found = [json.loads(path.read_text()) for path in RESULTS.glob("*.json")]
    return {**done, **{name: sum(each[name] for each in found) for name in ("departures", "late")}}


with DAG("publication", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    # [START howto_operator_redis_queue_publication]
    publish = RedisQueuePublishOperator(
        task_id="publish",
        redis_queue=QUEUE,
        messages=carrier_months,
        group=airline,
        publication="{{ run_id }}",
    )
    rerun = RedisQueuePublishOperator(
        task_id="rerun",
        redis_queue=QUEUE,
        messages=lambda: carrier_months(12),
        group=airline,
        priority=5,
        publication="{{ run_id }}",
    )
    wait = RedisQueueSensor(task_id="wait", redis_queue=QUEUE, publication="{{ run_id }}", deferrable=True)
    # [END howto_operator_redis_queue_publication]
    # After `work`, because dag.test() runs one task at a time; the sensor needs only to be after the publishers.
    share() >> [publish, rerun] >> work() >> wait
    report(wait.output)


if __name__ == "__main__":
    dag.test()
