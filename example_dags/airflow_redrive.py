"""Messages that no consumer could process become dead letters; once the cause is fixed, they are redriven.

Here the cause is a thirteenth month, which the first consumer rejects and the second one accepts.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG
from weather import airport_months, summarise

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.redrive import RedisQueueRedriveOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import LeasedConfig, Message

QUEUE = "airport-months-with-mistakes"
FOLDER = "redrive"
CONFIG = LeasedConfig(max_deliveries=2)


def items() -> list[dict[str, Any]]:
    """Return all airport-months, and two that do not exist."""
    return [*map(dict, airport_months()), {"origin": "JFK", "month": 13}, {"origin": "LGA", "month": 13}]


def work(message: Message) -> None:
    """Process one message; raises ValueError for the thirteenth month."""
    summarise(message.payload, FOLDER)  # type: ignore[arg-type]  # it was published as a dict


def work_better(message: Message) -> None:
    """Process one message, treating the thirteenth month as the first."""
    item: Any = message.payload
    summarise({**item, "month": (item["month"] - 1) % 12 + 1}, FOLDER)


with DAG("redrive", schedule=None, catchup=False, tags=["rmq", "example"]) as dag:
    publish = RedisQueuePublishOperator(task_id="publish", redis_queue=QUEUE, messages=items, queue_config=CONFIG)
    consume = RedisQueueConsumeOperator(
        task_id="consume", redis_queue=QUEUE, on_message=work, failed_delay=0, queue_config=CONFIG
    )
    # [START howto_operator_redis_queue_sensor_dead]
    watch = RedisQueueSensor(task_id="watch", redis_queue=QUEUE, count="dead", poke_interval=60, deferrable=True)
    # [END howto_operator_redis_queue_sensor_dead]
    # [START howto_operator_redis_queue_redrive]
    redrive = RedisQueueRedriveOperator(task_id="redrive", redis_queue=QUEUE, max_messages=1000)
    # [END howto_operator_redis_queue_redrive]
    again = RedisQueueConsumeOperator(task_id="again", redis_queue=QUEUE, on_message=work_better, queue_config=CONFIG)
    publish >> consume >> watch >> redrive >> again


if __name__ == "__main__":
    dag.test()
