"""A sensor claims a batch and hands it over to the next task; a teardown releases a batch that no task adopted.

The sensor waits in the triggerer and claims on a worker as its last step. Between sensor and task nothing extends the
lease: a task that starts after the deadline fails, and the messages are ready in the queue again.
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
        """Work on the adopted lease; from the adoption on, heartbeats extend it."""
        for message in messages:
            summarise(message.payload, FOLDER)
            messages.ack(message)  # a retry does not get it again
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
