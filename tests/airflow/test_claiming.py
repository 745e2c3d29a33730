"""Lease ids that a DAG sets itself: whose leases a task may take over, and whose not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rmq_airflow.batch import claim
from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.identity import TaskIdentity
from rmq_airflow.operators.consume import RedisQueueConsumeOperator
from rmq_airflow.operators.publish import RedisQueuePublishOperator
from rmq_airflow.operators.redrive import RedisQueueRedriveOperator
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import LeaseOwnedByOther, StreamQueue, Unsupported
from tests.airflow.conftest import MakeContext

NIGHTLY = "nightly"
FIRST = TaskIdentity("one", "run", "work", -1, 1)
RETRY = TaskIdentity("one", "run", "work", -1, 2)
OTHER = TaskIdentity("another", "run", "work", -1, 1)


def take(queue: Any, identity: TaskIdentity, **options: Any) -> Any:
    return claim(queue, identity, max_messages=5, named=NIGHTLY, **options).lease


def test_two_dags_that_use_one_lease_id_do_not_take_from_each_other(queue: Any) -> None:
    queue.publish_many("ab")
    held = take(queue, FIRST)
    with pytest.raises(LeaseOwnedByOther, match="airflow:one/run/work/-1/1"):
        take(queue, OTHER)
    assert queue.ack(held).settled == 2


@pytest.mark.parametrize("owner", ["01234567-89ab-cdef-0123-456789abcdef", "somebody else"], ids=["dagster", "by hand"])
def test_a_lease_of_a_dagster_run_or_of_a_manual_claim_is_refused_and_left_alone(queue: Any, owner: str) -> None:
    """tests/dagster/test_claimed.py tests the same for Dagster."""
    queue.publish_many("ab")
    take(queue, FIRST)
    queue.adopt(NIGHTLY, owner=owner)
    with pytest.raises(LeaseOwnedByOther, match=f"it is owned by '{owner}'"):
        take(queue, RETRY)
    assert [(lease.owner, lease.takeovers) for lease in queue.admin.leases()] == [(owner, 1)]


def work(messages: Any) -> int:
    return len(messages)


TASKS: dict[str, Callable[[], Any]] = {
    "publish": lambda: RedisQueuePublishOperator(task_id="t", redis_queue="stream", messages=["a"]),
    "consume": lambda: RedisQueueConsumeOperator(task_id="t", redis_queue="stream", on_message=print),
    "redrive": lambda: RedisQueueRedriveOperator(task_id="t", redis_queue="stream"),
    "wait": lambda: RedisQueueSensor(task_id="t", redis_queue="stream", deferrable=True),
    "taskflow": lambda: redis_queue_task(work, queue="stream")().operator,
}


@pytest.mark.parametrize("name", TASKS)
def test_a_queue_of_another_discipline_is_refused_and_does_not_count_as_empty(
    name: str, connection: str, secured_url: str, task_context: MakeContext
) -> None:
    with StreamQueue(secured_url, "stream") as stream:
        stream.publish({"n": 1})
    operator = TASKS[name]()
    with pytest.raises(Unsupported, match="leased"):
        operator.execute(task_context(operator))


def test_the_lease_id_of_the_next_batch_is_protected_too(queue: Any) -> None:
    queue.publish("a")
    queue.ack(take(queue, FIRST))
    queue.publish("b")
    take(queue, FIRST)
    with pytest.raises(LeaseOwnedByOther):
        take(queue, OTHER)
