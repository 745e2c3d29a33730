"""Publish work items and process each in a task: the smallest use of a queue.

The consumer may be killed or fail at any message: acked messages stay acked, and its retry processes the rest. Run the
DAG twice: within an hour, deduplication drops the items of the second run, which finds nothing to do.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task
from weather import airport_months, summarise, written

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_core import LeasedConfig, Message

QUEUE = "airport-months"
FOLDER = "publish_and_consume"


# [START howto_operator_redis_queue_consume_function]
def work(message: Message) -> None:
    """Process one message. It is acked on return; if this raises, it is nacked, and the others are processed."""
    summarise(message.payload, FOLDER)  # type: ignore[arg-type]  # it was published as a dict


# [END howto_operator_redis_queue_consume_function]


@task
def report(consumed: dict[str, Any]) -> dict[str, Any]:
    """Return the consumer's counts, and the counts of the files on disk."""
    return {**consumed, **written(FOLDER)}


with DAG(
    "publish_and_consume",
    schedule=None,
    catchup=False,
    tags=["rmq", "example"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
) as dag:
    # [START howto_operator_redis_queue_publish]
    publish = RedisQueuePublishOperator(
        task_id="publish",
        redis_queue=QUEUE,
        messages=airport_months,
        queue_config=LeasedConfig(dedup=True),
    )
    # [END howto_operator_redis_queue_publish]
    # [START howto_operator_redis_queue_consume]
    consume = RedisQueueConsumeOperator(
        task_id="consume",
        redis_queue=QUEUE,
        on_message=work,
        batch_size=10,
        max_failures=5,
    )
    # [END howto_operator_redis_queue_consume]
    publish >> consume
    report(consume.output)


if __name__ == "__main__":
    dag.test()
