"""Mistakes of DAG authors, and failures of Redis: each is a clear error, and nothing is lost. Other mistakes are tested
with their subject: unknown disciplines, thresholds that cannot be met, lease ids that two DAGs use.
"""

from __future__ import annotations

from typing import Any

import pytest

from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.redrive import RedisQueueRedriveOperator
from rmq_core import LeasedConfig, LeasedQueue, PayloadError, QueueUnavailable
from tests.airflow.conftest import QUEUE, MakeContext
from tests.servers import Server

HASTY = LeasedConfig(retry_budget=0.2)
OPERATORS: dict[str, Any] = {
    "publish": lambda **given: RedisQueuePublishOperator(task_id="t", messages=["a"], **given),
    "consume": lambda **given: RedisQueueConsumeOperator(task_id="t", on_message=print, **given),
    "redrive": lambda **given: RedisQueueRedriveOperator(task_id="t", **given),
}


def run(task: Any, context: MakeContext) -> Any:
    return task.execute(context(task))


def publish(messages: Any, **options: Any) -> RedisQueuePublishOperator:
    return RedisQueuePublishOperator(task_id="t", redis_queue=QUEUE, messages=messages, **options)


def test_a_payload_that_cannot_be_stored_leaves_nothing_of_its_chunk(
    connection: str, queue: Any, task_context: MakeContext
) -> None:
    with pytest.raises(PayloadError):
        run(publish(["fine", {"when": object()}]), task_context)
    assert queue.stats().ready == 0


@pytest.mark.parametrize("name", OPERATORS)
def test_a_redis_that_is_unreachable_at_the_start_fails_the_task_and_names_its_address(
    name: str, own_server: Server, task_context: MakeContext
) -> None:
    own_server.stop()
    task = OPERATORS[name](redis_queue=QUEUE, redis_queue_conn_id="own", queue_config=HASTY)
    with pytest.raises(QueueUnavailable, match=str(own_server.port)):
        run(task, task_context)


def test_an_outage_of_redis_during_the_work_loses_nothing(own_server: Server, task_context: MakeContext) -> None:
    with LeasedQueue(own_server.url, QUEUE) as queue:
        queue.publish_many("abc")

    def work(message: Any) -> None:
        if message.payload == "b":
            own_server.kill9()

    options = {"redis_queue_conn_id": "own", "queue_config": HASTY}
    task = RedisQueueConsumeOperator(task_id="t", redis_queue=QUEUE, on_message=work, **options)
    with pytest.raises(QueueUnavailable):
        run(task, task_context)
    own_server.restart()
    seen: list[Any] = []
    retry = RedisQueueConsumeOperator(
        task_id="t", redis_queue=QUEUE, on_message=lambda message: seen.append(message.payload), **options
    )
    retry.execute(task_context(retry, try_number=2))
    assert seen == ["b", "c"]
