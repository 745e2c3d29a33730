"""A sensor claims a batch and hands it to the task behind it; a teardown gives back what nobody took.

The sensor waits in the triggerer and claims on a worker, as the last thing it does. Between sensor and task nobody
holds the lease but its deadline: a task that comes too late fails, and the messages are in the queue again.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task
from weather import airport_months, summarise

from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.settle import RedisQueueSettleOperator
from rmq_airflow.sensors.queue import RedisQueueSensor

QUEUE = "airport-months-to-hand-over"
FOLDER = "hand_over"

with DAG("hand_over", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    publish = RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=airport_months)
    # [START howto_operator_redis_queue_sensor_hand_over]
    wait = RedisQueueSensor(
        task_id="wait",
        redis_queue=QUEUE,
        min_messages=36,
        max_age=timedelta(minutes=5),
        max_messages=1000,
        hand_over=timedelta(minutes=15),
        deferrable=True,
        timeout=timedelta(hours=1),
    )

    @task.redis_queue(hand_over=wait.output, retries=2, retry_delay=timedelta(seconds=5))
    def work(messages: Any) -> int:
        """Adopts the lease; from then on its heartbeats hold it."""
        for message in messages:
            summarise(message.payload, FOLDER)
            messages.ack(message)  # a retry does not do it again
        return len(messages)

    # [END howto_operator_redis_queue_sensor_hand_over]
    # [START howto_operator_redis_queue_settle]
    give_back = RedisQueueSettleOperator(
        task_id="give_back",
        hand_over=wait.output,
        action="release",
    )
    # [END howto_operator_redis_queue_settle]
    publish >> wait >> work() >> give_back.as_teardown(setups=wait)


if __name__ == "__main__":
    dag.test()
