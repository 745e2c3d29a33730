"""What a run gets that was deleted and created again under its name, and what a cleared run gets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG

from rmq_airflow.decorators.redis_queue import redis_queue_task
from rmq_airflow.sensors.queue import RedisQueueSensor
from rmq_core import LeaseOwnedByOther
from tests.airflow.conftest import QUEUE, MakeContext

FIRST = (datetime(2026, 1, 1, 10, tzinfo=UTC), 0)
CLEARED = (FIRST[0], 1)
ANEW = (datetime(2026, 1, 1, 11, tzinfo=UTC), 0)
LEASE = "dag/run/work/-1"

pytestmark = pytest.mark.usefixtures("connection")


def decorated(function: Any = lambda messages: list(messages.payloads), **options: Any) -> Any:
    with DAG("dag", schedule=None):
        return redis_queue_task(function, task_id="work", queue=QUEUE, max_messages=2, **options)().operator


def fail(messages: Any) -> None:
    raise ValueError("no")


def settle(queue: Any, context: MakeContext) -> None:
    queue.publish_many("ab")
    task = decorated()
    assert task.execute(context(task, run=FIRST)) == ["a", "b"]


def test_a_new_run_claims_ready_messages_after_a_former_run_of_its_name_was_settled(
    queue: Any, task_context: MakeContext
) -> None:
    settle(queue, task_context)
    queue.publish("c")
    task = decorated()
    context = task_context(task, run=ANEW)
    assert task.execute(context) == ["c"]
    assert context["ti"].pushed == {}
    assert queue.settled(f"{LEASE}#2").acked == 1


def test_a_cleared_run_after_a_settled_one_gets_nothing_and_logs_it(
    queue: Any, task_context: MakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    settle(queue, task_context)
    queue.publish("c")
    task = decorated()
    context = task_context(task, run=CLEARED, try_number=2)
    assert task.execute(context) == []
    assert context["ti"].pushed == {"settled_before": True}
    assert f"has acked 2 messages under lease {LEASE}." in caplog.text
    assert "cannot be told" not in caplog.text


def test_a_cleared_run_with_next_claims_further_messages_and_logs_it(queue: Any, task_context: MakeContext) -> None:
    settle(queue, task_context)
    queue.publish("c")
    task = decorated(on_settled="next")
    context = task_context(task, run=CLEARED, try_number=2)
    assert task.execute(context) == ["c"]
    assert context["ti"].pushed == {"settled_before": True}


def test_runs_that_cannot_be_distinguished_are_reported_in_the_log(
    queue: Any, task_context: MakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    queue.publish("a")
    queue.ack(queue.claim(lease_id=LEASE, owner="airflow:dag/run/work/-1/1"))  # as written without a run mark
    queue.publish("b")
    task = decorated()
    context = task_context(task, run=ANEW)
    assert task.execute(context) == []
    assert context["ti"].pushed == {"settled_before": True}
    assert "settled by this run or by a deleted run of the same name" in caplog.text


def test_the_retry_of_a_new_run_finds_its_own_lease_after_one_that_a_former_run_settled(
    queue: Any, task_context: MakeContext
) -> None:
    settle(queue, task_context)
    queue.publish_many("cd")
    failing = decorated(fail)
    with pytest.raises(ValueError, match="no"):
        failing.execute(task_context(failing, run=ANEW))
    queue.publish("e")
    task = decorated()
    assert task.execute(task_context(task, run=ANEW, try_number=2)) == ["c", "d"]


def test_a_zombie_of_a_former_run_takes_nothing_from_the_new_one(queue: Any, task_context: MakeContext) -> None:
    task = decorated(fail)
    zombie = task_context(task, run=FIRST, try_number=2)
    queue.publish_many("ab")
    with pytest.raises(ValueError, match="no"):
        task.execute(task_context(task, run=ANEW))
    with pytest.raises(LeaseOwnedByOther):
        task.execute(zombie)
    assert queue.stats().leased == 2


def sensor(**options: Any) -> RedisQueueSensor:
    return RedisQueueSensor(task_id="wait", redis_queue=QUEUE, hand_over=True, min_messages=2, **options)


@pytest.mark.parametrize("adopted", [True, False])
def test_a_sensor_of_a_new_run_takes_over_the_hand_over_of_a_former_run(
    adopted: Any, queue: Any, task_context: MakeContext
) -> None:
    queue.publish_many("ab")
    before = sensor()
    handed = before.execute(task_context(before, run=FIRST))
    if adopted:
        with DAG("dag", schedule=None):
            task = redis_queue_task(fail, task_id="work", hand_over=handed)().operator
        with pytest.raises(ValueError, match="no"):
            task.execute(task_context(task, run=FIRST))
    anew = sensor()
    report = anew.execute(task_context(anew, run=ANEW))
    assert (report["claimed"], report["lease_id"], report["settled_before"]) == (2, handed["lease_id"], False)


def test_a_sensor_of_a_cleared_run_whose_hand_over_was_settled_waits_on(queue: Any, task_context: MakeContext) -> None:
    queue.publish_many("ab")
    before = sensor()
    handed = before.execute(task_context(before, run=FIRST))
    queue.ack(queue.adopt(handed["lease_id"], owner=handed["owner"]))
    again = sensor(deferrable=True)
    with pytest.raises(TaskDeferred):
        again.execute(task_context(again, run=CLEARED, try_number=2))
    queue.publish_many("cd")
    report = again.execute(task_context(again, run=CLEARED, try_number=2))
    assert (report["claimed"], report["settled_before"]) == (2, True)
